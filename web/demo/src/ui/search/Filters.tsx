import { EVERYWHERE, type Narrowing } from "../../confab/search";
import { useWorld } from "../world";
import { Where } from "./Results";
import { isEverywhere, useSearchState, type Names } from "./useResults";

const KINDS = [["FILE", "Files"], ["IMAGE", "Photos"], ["LINK", "Links"]] as const;

/** Buttons that narrow the search for messages. conversationId: the open conversation. */
export function Filters({ conversationId, names }: { conversationId: string | null; names: Names }) {
  const { me, search, people } = useWorld();
  const state = useSearchState();
  const { narrowing } = state;
  const set = (change: Partial<Narrowing>) => search.change({ narrowing: { ...narrowing, ...change } });
  const here = narrowing.conversationId ?? conversationId;

  const peers = names.sessions.flatMap(({ conversation }) => (conversation.__typename === "PrivateConversation" ? [conversation.peer] : []));
  const senders = new Map([...peers, ...people].map(({ id, displayName }) => [id, displayName]));
  senders.delete(me);
  return (
    <div className="filters" role="group" aria-label="Filters">
      {here && (
        <button className="chip" aria-pressed={!!narrowing.conversationId} onClick={() => set({ conversationId: narrowing.conversationId ? null : here })}>
          In: <Where conversationId={here} names={names} />
        </button>
      )}
      <select className="chip" aria-label="From" data-chosen={narrowing.senderId ?? undefined} value={narrowing.senderId ?? ""} onChange={(event) => set({ senderId: event.target.value || null })}>
        <option value="">From: anyone</option>
        <option value={me}>From: you</option>
        {[...senders].map(([id, name]) => <option key={id} value={id}>From: {name}</option>)}
      </select>
      {KINDS.map(([has, label]) => (
        <button key={has} className="chip" aria-pressed={narrowing.has === has} onClick={() => set({ has: narrowing.has === has ? null : has })}>{label}</button>
      ))}
      <button className="chip" aria-pressed={narrowing.pinned} onClick={() => set({ pinned: !narrowing.pinned })}>Pinned</button>
      {!isEverywhere(state) && <button className="link" onClick={() => search.change({ narrowing: EVERYWHERE })}>Clear</button>}
    </div>
  );
}
