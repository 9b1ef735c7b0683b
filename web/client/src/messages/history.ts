import { STOPPED } from "../errors";
import { Messages, type MessagesQueryVariables } from "../gql";
import { historyTopic, type Store } from "../store/store";
import { displayedPart, type Middle, type Position } from "../store/timeline";
import { view } from "../store/view";
import { ConfabError, type Api, type History, type HistoryState, type PendingMessage } from "../types";

const PAGE = 50;
const RETRY_MS = 1_000;

export interface HistoryOptions {
  store: Store;
  api: Api;
  /** Follows the events of the conversation until the returned function is called. */
  watch(): () => void;
  /** Resolves when there is no gap between a page requested from then on and the events. */
  live(): Promise<void>;
  pending(): readonly PendingMessage[];
}

/** The history of one conversation. It is loaded for its first subscriber. */
export function openHistory(conversationId: string, around: number | null, { store, api, watch, live, pending }: HistoryOptions): History {
  const topic = historyTopic(conversationId);
  const timeline = store.timeline(conversationId);
  let anchor = around;
  let middle: Middle = around ?? "newest";
  const refusal = () => store.refusals.get(conversationId);
  const range = () => (anchor === null ? timeline.newest() : timeline.around(anchor));

  /** Called when the history may be cut. Afterwards, the anchor is in the part that stays. */
  const displayed = () => {
    const shown = range();
    if (!shown) return [];
    const part = displayedPart(shown, middle);
    const isCut = part.length < shown.items.length;
    if (isCut) anchor = middle !== "newest" ? middle : shown.isNewest ? null : part.at(-1)!.seq;
    return part;
  };

  /** Rejects with a ConfabError. */
  const fetchPage = async (position: Position, args: Omit<MessagesQueryVariables, "conversationId">) => {
    await live();
    for (;;) {
      const { epoch, liveCount } = timeline;
      const requestedAt = store.eventCount();
      const { messages } = await api.request(Messages, { conversationId, ...args });
      if (epoch !== timeline.epoch && !("newest" in position || "aroundSeq" in position)) return; // The page next to it was dropped.
      if (epoch !== timeline.epoch) continue;
      const nodes = messages?.edges.map(({ node }) => node) ?? [];
      // The conversation does not exist yet: all its messages will arrive as events.
      const info = messages?.pageInfo ?? { hasPreviousPage: false, hasNextPage: false };
      if ("aroundSeq" in position && !nodes.length && anchor === position.aroundSeq) anchor = null;
      if ("aroundSeq" in position && nodes.length && anchor === position.aroundSeq) {
        const distance = ({ seq }: { seq: number }) => Math.abs(seq - position.aroundSeq);
        anchor = nodes.reduce((best, each) => (distance(each) < distance(best) ? each : best)).seq;
        middle = anchor;
      }
      if (store.applyPage(conversationId, nodes, info, position, requestedAt, liveCount)) return;
    }
  };

  let loading: Promise<void> | undefined;
  const load = () => {
    timeline.viewers.add(displayed);
    if (range()) return Promise.resolve();
    if (loading) return loading;
    const at = anchor;
    const unwatch = watch();
    loading = fetchPage(at === null ? { newest: true } : { aroundSeq: at }, at === null ? { last: PAGE } : { first: PAGE, aroundSeq: at }).finally(() => {
      loading = undefined;
      unwatch();
    });
    return loading;
  };

  const listeners = new Set<() => void>();
  /** Loads while there is a listener. Repeats after a retryable error. */
  const keepLoaded = () => {
    if (!listeners.size || range() || loading || refusal()) return;
    load().then(keepLoaded, (error: ConfabError) => {
      if (error.isRetryable) return void setTimeout(keepLoaded, error.retryAfterMs || RETRY_MS);
      if (error.code !== STOPPED && !refusal()) store.setRefusal(conversationId, error);
    });
  };

  const state = view<HistoryState>(store.topics, [topic], () => {
    const shown = range();
    const messages = (shown?.items ?? []).flatMap(({ id }) => store.message(id) ?? []);
    const error = refusal();
    const stored = new Set(messages.flatMap(({ idempotencyKey }) => idempotencyKey ?? []));
    return {
      status: error ? "failed" : shown ? "ready" : "loading",
      messages,
      pending: shown && !shown.isNewest ? [] : pending().filter(({ key }) => !stored.has(key)),
      hasOlder: shown?.older != null,
      hasNewer: !!shown && !shown.isNewest,
      ...(error && { error }),
    };
  });
  const moves = new Map<string, Promise<void>>();
  /** One request at a time for each page. */
  const once = (name: string, fetch: () => Promise<void>) => {
    const running = moves.get(name) ?? fetch().finally(() => moves.delete(name));
    moves.set(name, running);
    return running;
  };
  const move = async (edge: "older" | "newer") => {
    if (!range()) await load();
    timeline.viewers.add(displayed);
    const { [edge]: at = null, items = [] } = range() ?? {};
    if (at === null) return;
    const isOlder = edge === "older";
    // The messages on the screen are never cut.
    middle = items.at(isOlder ? 0 : -1)?.seq ?? middle;
    await once(`${edge} ${at}`, () => {
      if (typeof at === "number") return fetchPage(isOlder ? { beforeSeq: at } : { afterSeq: at }, { first: 2 * PAGE, aroundSeq: at });
      return isOlder ? fetchPage({ before: at }, { last: PAGE, before: at }) : fetchPage({ after: at }, { first: PAGE, after: at });
    });
    if (!isOlder && range()?.isNewest) middle = "newest";
  };
  return {
    get: state.get,
    subscribe: (listener) => {
      const own = () => (keepLoaded(), listener());
      if (!listeners.size) store.clearRefusal(conversationId);
      timeline.viewers.add(displayed);
      const ends = [state.subscribe(own), watch()];
      listeners.add(own);
      keepLoaded();
      return () => {
        listeners.delete(own);
        // It begins at the same place when it is opened again.
        if (!listeners.size) {
          [anchor, middle] = [around, around ?? "newest"];
          timeline.viewers.delete(displayed);
          store.closeHistory(conversationId);
        }
        ends.forEach((end) => end());
      };
    },
    loadOlder: () => move("older"),
    loadNewer: () => move("newer"),
    jumpTo: async (seq) => {
      [anchor, middle] = [seq, seq ?? "newest"];
      store.clearRefusal(conversationId);
      store.topics.changed(topic);
      await loading;
      await load();
    },
  };
}
