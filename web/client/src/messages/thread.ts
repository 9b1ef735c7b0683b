import { Message as MessageQuery } from "../gql";
import { historyTopic, type Store } from "../store/store";
import { view } from "../store/view";
import type { Api, ConfabError, History, PendingMessage, ThreadHistory, ThreadState } from "../types";

const RETRY_MS = 1_000;

export interface ThreadOptions {
  store: Store;
  api: Api;
  /** The history of a conversation, also of a thread. */
  historyOf(conversationId: string): History;
  /** The user's replies to this message that are not stored yet. */
  pending(): readonly PendingMessage[];
}

/** The replies to a message. The first reply, by any user, creates the thread. */
export function openThread({ id, conversationId }: { id: string; conversationId: string }, { store, api, historyOf, pending }: ThreadOptions): ThreadHistory {
  const own = view(store.topics, [historyTopic(conversationId)], () => ({ parent: store.message(id), pending: pending() }));
  const replies = () => {
    const threadId = own.get().parent?.thread?.id;
    return threadId === undefined ? undefined : historyOf(threadId);
  };

  let error: ConfabError | undefined;
  let loading = false;
  /** The parent message may not be among the loaded messages. */
  const loadParent = async () => {
    if (loading || store.message(id)) return;
    loading = true;
    const requestedAt = store.eventCount();
    try {
      const { message } = await api.request(MessageQuery, { id });
      if (message) store.applyMessages([message], requestedAt);
    } catch (refusal) {
      if ((refusal as ConfabError).isRetryable) setTimeout(() => void loadParent(), RETRY_MS);
      else error = refusal as ConfabError;
    } finally {
      loading = false;
      store.topics.changed(historyTopic(conversationId));
    }
  };

  let inputs: readonly unknown[] = [];
  let state: ThreadState | undefined;
  const get = (): ThreadState => {
    const { parent, pending } = own.get();
    const history = replies()?.get();
    const now = [parent, history, history ? null : pending, error];
    if (state && now.every((each, index) => each === inputs[index])) return state;
    inputs = now;
    const empty = { status: parent ? ("ready" as const) : error ? ("failed" as const) : ("loading" as const), messages: [], pending, hasOlder: false, hasNewer: false };
    return (state = { ...(history ?? { ...empty, ...(error && { error }) }), parent, thread: parent?.thread ?? null });
  };

  return {
    get,
    subscribe: (listener) => {
      let followed: History | undefined;
      let unfollow = () => {};
      const follow = () => {
        const history = replies();
        if (history === followed) return;
        unfollow();
        followed = history;
        unfollow = history?.subscribe(listener) ?? (() => {});
      };
      const changed = () => (follow(), listener());
      // Others' first reply is an event of the conversation.
      const ends = [own.subscribe(changed), historyOf(conversationId).subscribe(() => {})];
      follow();
      void loadParent();
      const keeper = () => [id];
      store.keepers.add(keeper);
      return () => {
        store.keepers.delete(keeper);
        unfollow();
        ends.forEach((end) => end());
      };
    },
    loadOlder: async () => replies()?.loadOlder(),
    loadNewer: async () => replies()?.loadNewer(),
    jumpTo: async (seq) => replies()?.jumpTo(seq),
  };
}
