/**
 * The pinned messages of conversations.
 *
 * Guarantees: a newly pinned message is first, and unpinned and recalled messages are left out, also if an answer and an event overtake
 * each other. A list that may have missed events is loaded again.
 */
import { PinnedMessages as PinnedMessagesQuery } from "../gql";
import { DROPPED, historyTopic, type Store } from "../store/store";
import { cached, view } from "../store/view";
import type { Api, ConfabError, Message, PinnedMessages, PinnedMessagesState } from "../types";
import { startTimers } from "../waiting";

const RETRY_MS = 1_000;

export interface Pins {
  of(conversationId: string): PinnedMessages;
  /** An event: the message was pinned or unpinned. */
  changed(message: Message): void;
  /** The answer to the user's own pin. */
  add(message: Message): void;
  stop(): void;
}

export interface PinsOptions {
  store: Store;
  api: Api;
  /** Follows the events of a conversation until the returned function is called. */
  watch(conversationId: string): () => void;
  /** Resolves when there is no gap between a page requested from then on and the events. */
  live(conversationId: string): Promise<void>;
}

interface PinList {
  listeners: number;
  /** Pinned since the list was requested, the latest first; at: the number of the event. */
  added: readonly { id: string; at: number }[];
  fetched: readonly string[];
  /** Cursor of the next page; null at the end. */
  after: string | null;
  /** The version of the conversation's data that the list belongs to; undefined: it is not loaded. */
  version: number | undefined;
  isLoading: boolean;
  error: ConfabError | undefined;
}

export function openPins({ store, api, watch, live }: PinsOptions): Pins {
  const { topics } = store;
  const timers = startTimers();
  const topic = (id: string) => `pins ${id}`;
  const lists = new Map<string, PinList>();
  const listOf = (id: string) =>
    cached<PinList>(lists, id, () => ({ listeners: 0, added: [], fetched: [], after: null, version: undefined, isLoading: false, error: undefined }));
  const idsOf = ({ added, fetched }: PinList) => [...new Set([...added.map(({ id }) => id), ...fetched])];

  const fetchPage = async (conversationId: string, after: string | null) => {
    await live(conversationId);
    const [version, requestedAt] = [store.versionOf(conversationId), store.eventCount()];
    const { edges, pageInfo } = await api
      .request(PinnedMessagesQuery, { conversationId, after })
      .then(({ pinnedMessages }) => pinnedMessages, (error: ConfabError) => {
        // A private conversation exists from its first message on.
        if (error.code === "NOT_FOUND" && conversationId.startsWith("p_")) return { edges: [], pageInfo: { hasNextPage: false, endCursor: null } };
        throw error;
      });
    const list = listOf(conversationId);
    if (version !== store.versionOf(conversationId) || (after && list.version !== version)) return; // It is loaded again.
    const messages = edges.map(({ node }) => node);
    if (!after) list.added = list.added.filter(({ at }) => at > requestedAt);
    list.fetched = [...(after ? list.fetched : []), ...messages.map(({ id }) => id)];
    list.after = pageInfo.hasNextPage ? (pageInfo.endCursor ?? null) : null;
    list.version = version;
    store.applyMessages(messages, requestedAt);
    topics.changed(topic(conversationId));
  };

  /** Loads while there is a listener. Repeats after a retryable error. */
  const keepLoaded = async (id: string): Promise<void> => {
    const list = listOf(id);
    if (!list.listeners || list.isLoading || list.error || store.refusals.has(id) || list.version === store.versionOf(id)) return;
    list.isLoading = true;
    try {
      await fetchPage(id, null);
      list.isLoading = false;
      return await keepLoaded(id);
    } catch (error) {
      list.isLoading = false;
      const refusal = error as ConfabError;
      if (refusal.isRetryable) return timers.later(refusal.retryAfterMs || RETRY_MS, () => void keepLoaded(id));
      list.error = refusal;
      topics.changed(topic(id));
    }
  };

  store.keepers.add(() => [...lists.values()].flatMap(idsOf));
  const views = new Map<string, PinnedMessages>();
  const open = (id: string): PinnedMessages => {
    let before: PinnedMessagesState | undefined;
    const state = view<PinnedMessagesState>(topics, [topic(id), historyTopic(id), DROPPED], () => {
      const list = listOf(id);
      const error = store.refusals.get(id) ?? list.error;
      const messages = error ? [] : idsOf(list).flatMap((each) => store.message(each) ?? []).filter(({ isPinned, state: its }) => isPinned && its === "NORMAL");
      const status = error ? "failed" : list.version === undefined ? "loading" : "ready";
      const now: PinnedMessagesState = { status, messages: status === "ready" ? messages : [], hasMore: list.after !== null, ...(error && { error }) };
      // Other changes of the conversation change nothing here.
      const isSame = before && before.status === now.status && before.hasMore === now.hasMore && before.error === now.error && before.messages.length === now.messages.length;
      if (before && isSame && now.messages.every((each, index) => each === before!.messages[index])) return before;
      return (before = now);
    });
    let loadingMore: Promise<void> | undefined;
    return {
      get: state.get,
      subscribe: (listener) => {
        const list = listOf(id);
        if (!list.listeners) {
          list.error = undefined;
          store.clearRefusal(id);
        }
        list.listeners += 1;
        const ends = [state.subscribe(() => (void keepLoaded(id), listener())), watch(id)];
        void keepLoaded(id);
        let ended = false;
        return () => {
          if (ended) return;
          ended = true;
          list.listeners -= 1;
          ends.forEach((end) => end());
        };
      },
      loadMore: () => {
        const { after } = listOf(id);
        if (after === null) return Promise.resolve();
        return (loadingMore ??= fetchPage(id, after).finally(() => (loadingMore = undefined)));
      },
    };
  };

  const putFirst = ({ id, conversationId }: Message) => {
    const list = lists.get(conversationId);
    if (!list) return;
    list.added = [{ id, at: store.eventCount() }, ...list.added.filter((each) => each.id !== id)];
    topics.changed(topic(conversationId));
  };
  return {
    of: (id) => cached(views, id, () => open(id)),
    changed: (message) => {
      if (store.message(message.id)) store.patchMessage(message.id, { isPinned: message.isPinned });
      else if (lists.has(message.conversationId)) store.applyMessages([message]);
      if (message.isPinned) putFirst(message);
    },
    // An event may have added it already, and later pins too.
    add: (message) => {
      const list = lists.get(message.conversationId);
      if (message.isPinned && list && !idsOf(list).includes(message.id)) putFirst(message);
    },
    stop: timers.stop,
  };
}
