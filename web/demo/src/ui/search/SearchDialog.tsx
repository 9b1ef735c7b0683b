import { privateId } from "@confab/client";
import { useEffect, useLayoutEffect, useRef, type KeyboardEvent } from "react";

import { NO_FILTERS } from "../../confab/search";
import { plural } from "../format";
import { Icon } from "../Icon";
import { seqOnScreen } from "../messages/MessageList";
import { closeSearchDialog, goToResult, useRoute, type Route } from "../route";
import { useApp } from "../appContext";
import { isShortcut } from "./buttons";
import { Filters } from "./Filters";
import { Results } from "./Results";
import { groupsOf, hasNoFilters, useNames, useSearchState, type Result } from "./useResults";

const MAX_CHARACTERS = 256;

/**
 * Searches people, conversations, channels and messages. The field keeps the focus: the arrow keys choose a result, Enter opens it, and
 * Escape closes the dialog. It reopens as it was when the user goes back from a result.
 */
export function SearchDialog() {
  const { me, search } = useApp();
  const { conversationId, workspaceId } = useRoute();
  const state = useSearchState();
  const names = useNames();
  const dialog = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);

  const groups = groupsOf(state, names, me);
  const results = groups.flatMap((group) => group.results);
  const chosen = results.find(({ key }) => key === state.chosen) ?? results[0];
  const idOf = (result: Result) => `result-${results.indexOf(result)}`;

  useLayoutEffect(() => {
    const element = dialog.current!;
    element.showModal();
    field.current!.focus();
    field.current!.select();
    return () => element.close();
  }, []);
  useEffect(() => {
    const { filters } = search.state();
    if (filters.conversationId && filters.conversationId !== conversationId && !search.state().chosen) search.change({ filters: NO_FILTERS });
  }, []);

  const leave = (route: Partial<Route>) => goToResult(route, seqOnScreen());
  const open = (result: Result) => {
    if (result.kind === "more") return search.loadMore();
    search.choose(result.key);
    switch (result.kind) {
      case "person":
        return leave({ conversationId: privateId(me, result.user.id) });
      case "session": {
        const { conversation, subBiz } = result.session;
        return leave(conversation.__typename === "SubBizGateway" ? { subBiz: conversation.subBiz } : { subBiz, conversationId: conversation.id });
      }
      case "channel": {
        const { channel, workspace } = result.channel;
        return leave({ workspaceId: workspace.id, conversationId: channel.kind === "VOICE" ? null : channel.id });
      }
      case "message": {
        const { conversationId: id, seq } = result.found.node;
        const workspace = names.channels.find(({ channel }) => channel.id === id)?.workspace.id;
        const subBiz = names.sessions.find(({ conversation }) => conversation.id === id)?.subBiz ?? null;
        return leave({ workspaceId: workspace === workspaceId ? workspaceId : null, subBiz, conversationId: id, seq });
      }
    }
  };

  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === "Escape") return (event.preventDefault(), closeSearchDialog());
    if (isShortcut(event.nativeEvent)) return (event.preventDefault(), field.current!.focus(), field.current!.select());
    if (event.target !== field.current || event.nativeEvent.isComposing) return;
    const now = chosen ? results.indexOf(chosen) : -1;
    const to = { ArrowDown: now + 1, ArrowUp: now - 1 }[event.key];
    if (to !== undefined && results.length) (event.preventDefault(), search.choose(results.at(to % results.length)!.key));
    if (event.key === "Enter" && chosen) (event.preventDefault(), open(chosen));
  };

  return (
    <dialog ref={dialog} className="search" aria-label="Search" onKeyDown={onKeyDown} onCancel={(event) => (event.preventDefault(), closeSearchDialog())} onClose={() => closeSearchDialog()} onClick={(event) => event.target === dialog.current && closeSearchDialog()}>
      <div className="search-inside">
        <div className="search-head">
          {state.searching ? <i className="spinner" aria-hidden="true" /> : <Icon name="search" />}
          <input
            ref={field}
            type="text"
            role="combobox"
            aria-label="Search people, conversations and messages"
            placeholder="People, conversations, messages"
            aria-expanded={results.length > 0}
            aria-controls="search-results"
            aria-autocomplete="list"
            aria-activedescendant={chosen && idOf(chosen)}
            value={state.text}
            onChange={(event) => search.change({ text: event.target.value })}
            maxLength={MAX_CHARACTERS}
            enterKeyHint="search"
            spellCheck={false}
            autoCapitalize="none"
            autoComplete="off"
          />
          <button className="icon" aria-label="Close" onClick={closeSearchDialog}><Icon name="close" /></button>
        </div>
        <Filters conversationId={conversationId} names={names} />
        <Results groups={groups} names={names} chosen={chosen} idOf={idOf} open={open} />
        <Notes count={results.length} />
        <p className="keys" aria-hidden="true"><span><kbd>↑</kbd> <kbd>↓</kbd> choose</span> <span><kbd>Enter</kbd> open</span> <span><kbd>Esc</kbd> close</span></p>
      </div>
    </dialog>
  );
}

/** Notes below the results: nothing found, a failure, or an incomplete search. */
function Notes({ count }: { count: number }) {
  const { search } = useApp();
  const state = useSearchState();
  const text = state.text.trim();
  const answered = !state.searching && state.answered === text && text !== "";
  const messages = plural(state.messages.length, "message");
  return (
    <>
      <p className="sr-only" role="status">{answered && !state.failure ? `${count ? plural(count, "result") : "Nothing found"}${state.messages.length ? `, ${messages}` : ""}` : ""}</p>
      {!text && !hasNoFilters(state) && <p className="search-note">Type a word to find messages. “Exact phrases” go in quotes, and -words are left out.</p>}
      {text && !count && !answered && !state.failure && <div className="search-skeletons" aria-hidden="true"><i /><i /><i /></div>}
      {answered && !count && !state.failure && <p className="search-note"><b>Nothing found</b>Try fewer or shorter words{hasNoFilters(state) ? "" : ", or fewer filters"}.</p>}
      {state.failure && (
        <p className="search-note" role="alert">
          <b>Messages were not searched</b>{state.failure.text}{" "}
          {state.failure.isRetryable && <button className="link" onClick={search.retry}>Try again</button>}
        </p>
      )}
      {answered && !state.complete && <p className="search-warning"><Icon name="clock" /> Not everything was searched yet. Some messages may be missing.</p>}
    </>
  );
}
