import { NO_FILTERS, type SearchFilters } from "../../confab/search";
import { useApp } from "../appContext";
import { ConversationName } from "./Results";
import { hasNoFilters, useSearchState, type Names } from "./useResults";

const KINDS = [["FILE", "Files"], ["IMAGE", "Photos"], ["LINK", "Links"]] as const;

/** Buttons that narrow the search for messages. conversationId: the open conversation. */
export function Filters({ conversationId, names }: { conversationId: string | null; names: Names }) {
  const { me, search, people } = useApp();
  const state = useSearchState();
  const { filters } = state;
  const set = (change: Partial<SearchFilters>) => search.change({ filters: { ...filters, ...change } });
  const here = filters.conversationId ?? conversationId;

  const peers = names.sessions.flatMap(({ conversation }) => (conversation.__typename === "PrivateConversation" ? [conversation.peer] : []));
  const senders = new Map([...peers, ...people].map(({ id, displayName }) => [id, displayName]));
  senders.delete(me);
  return (
    <div className="filters" role="group" aria-label="Filters">
      {here && (
        <button className="chip" aria-pressed={!!filters.conversationId} onClick={() => set({ conversationId: filters.conversationId ? null : here })}>
          In: <ConversationName conversationId={here} names={names} />
        </button>
      )}
      <select className="chip" aria-label="From" data-chosen={filters.senderId ?? undefined} value={filters.senderId ?? ""} onChange={(event) => set({ senderId: event.target.value || null })}>
        <option value="">From: anyone</option>
        <option value={me}>From: you</option>
        {[...senders].map(([id, name]) => <option key={id} value={id}>From: {name}</option>)}
      </select>
      {KINDS.map(([has, label]) => (
        <button key={has} className="chip" aria-pressed={filters.has === has} onClick={() => set({ has: filters.has === has ? null : has })}>{label}</button>
      ))}
      <button className="chip" aria-pressed={filters.pinned} onClick={() => set({ pinned: !filters.pinned })}>Pinned</button>
      {!hasNoFilters(state) && <button className="link" onClick={() => search.change({ filters: NO_FILTERS })}>Clear</button>}
    </div>
  );
}
