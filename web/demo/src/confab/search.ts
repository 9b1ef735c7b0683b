/**
 * A search for people and messages that follows the user's typing.
 *
 * Guarantees: a request is sent when typing pauses, and cancelled when the search changes, so an answer never replaces that of a later
 * search. The last answer stays until the next one arrives. The state outlives the dialog, so the user finds the results as they
 * left them.
 */
import type { Api, ConfabError, Operation, User } from "@confab/client";

import { SearchMessagesDocument, SearchPeopleDocument, type SearchFilter, type SearchMessagesQuery } from "../gql";

export type FoundMessage = SearchMessagesQuery["searchMessages"]["edges"][number];

/** Filters of a search. Null and false: no filter. */
export interface SearchFilters {
  conversationId: string | null;
  senderId: string | null;
  has: "FILE" | "IMAGE" | "LINK" | null;
  pinned: boolean;
}

export interface SearchState {
  text: string;
  filters: SearchFilters;
  /** The text that `people` and `messages` belong to; it differs from `text` while an answer is awaited. */
  answered: string;
  searching: boolean;
  people: readonly User[];
  messages: readonly FoundMessage[];
  /** False if the server has not searched everything. */
  complete: boolean;
  /** Where the next page begins; null if this is all. */
  after: string | null;
  loadingMore: boolean;
  /** Why there are no messages, or no more of them. */
  failure: { text: string; isRetryable: boolean } | null;
  /** The chosen result, by its key. */
  chosen: string | null;
}

export interface Search {
  state(): SearchState;
  onChange(listener: () => void): () => void;
  change(to: Partial<Pick<SearchState, "text" | "filters">>): void;
  choose(key: string | null): void;
  /** Loads the next page. */
  loadMore(): void;
  /** Searches again after a failure. */
  retry(): void;
  stop(): void;
}

export const DEBOUNCE_MS = 180;
export const NO_FILTERS: SearchFilters = { conversationId: null, senderId: null, has: null, pinned: false };

const NOTHING = { people: [], messages: [], complete: true, after: null, loadingMore: false, failure: null } as const;
const OFFLINE = "This needs the network.";

export function filterOf({ conversationId, senderId, has, pinned }: SearchFilters): SearchFilter {
  return {
    ...(conversationId && { conversationIds: [conversationId] }),
    ...(senderId && { senderIds: [senderId] }),
    ...(has && { has: [has] }),
    ...(pinned && { pinned }),
  };
}

export function openSearch(api: Pick<Api, "request">): Search {
  let state: SearchState = { text: "", filters: NO_FILTERS, answered: "", searching: false, chosen: null, ...NOTHING };
  const listeners = new Set<() => void>();
  const set = (change: Partial<SearchState>) => {
    state = { ...state, ...change };
    listeners.forEach((changed) => changed());
  };

  let running = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const cancel = () => {
    clearTimeout(timer);
    running.abort();
    running = new AbortController();
  };
  const request = <Data, Variables>(operation: Operation<Data, Variables>, variables: Variables, answered: (data: Data) => void, failed: (error: ConfabError) => void) => {
    const { signal } = running;
    const unlessCanceled = <Value>(take: (value: Value) => void) => (value: Value) => signal.aborted || take(value);
    api.request(operation, variables, { signal }).then(unlessCanceled(answered), unlessCanceled(failed));
  };

  const send = () => {
    const query = state.text.trim();
    request(SearchPeopleDocument, { query }, ({ searchUsers }) => set({ people: searchUsers.edges.map(({ node }) => node) }), () => {});
    request(
      SearchMessagesDocument,
      { query, filter: filterOf(state.filters) },
      ({ searchMessages: { edges, pageInfo, complete } }) =>
        set({ searching: false, answered: query, messages: edges, complete, after: pageInfo.hasNextPage ? pageInfo.endCursor! : null, failure: null }),
      (error) => set({ searching: false, answered: query, messages: [], after: null, complete: true, failure: failureOf(error) }),
    );
  };
  const restart = (afterMs: number) => {
    cancel();
    if (!state.text.trim()) return set({ ...NOTHING, answered: "", searching: false });
    set({ searching: true, loadingMore: false });
    timer = setTimeout(send, afterMs);
  };

  return {
    state: () => state,
    onChange: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    change: (to) => {
      const isSame = (to.text ?? state.text).trim() === state.text.trim() && !to.filters;
      set({ ...to, ...(!isSame && { chosen: null }) });
      if (!isSame) restart(DEBOUNCE_MS);
    },
    choose: (chosen) => set({ chosen }),
    loadMore: () => {
      if (!state.after || state.loadingMore || state.searching) return;
      set({ loadingMore: true, failure: null });
      const variables = { query: state.text.trim(), filter: filterOf(state.filters), after: state.after };
      const add = ({ searchMessages: { edges, pageInfo, complete } }: SearchMessagesQuery) => {
        const known = new Set(state.messages.map(({ node }) => node.id));
        set({
          loadingMore: false,
          messages: [...state.messages, ...edges.filter(({ node }) => !known.has(node.id))],
          complete: state.complete && complete,
          after: pageInfo.hasNextPage ? pageInfo.endCursor! : null,
        });
      };
      request(SearchMessagesDocument, variables, add, (error) => set({ loadingMore: false, failure: failureOf(error) }));
    },
    retry: () => restart(0),
    stop: () => {
      cancel();
      listeners.clear();
    },
  };
}

function failureOf({ code, message, isRetryable }: ConfabError): NonNullable<SearchState["failure"]> {
  return { text: code === "NETWORK" ? OFFLINE : message, isRetryable };
}
