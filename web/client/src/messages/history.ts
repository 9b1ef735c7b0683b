import { STOPPED } from "../errors";
import { Messages, type MessagesQueryVariables } from "../gql";
import { historyTopic, type Store } from "../store/store";
import { displayedPart, type Middle, type Position } from "../store/timeline";
import { view } from "../store/view";
import { ConfabError, type Api, type History, type HistoryState, type PendingMessage } from "../types";

const PAGE = 50;
const AGAIN_MS = 1_000;

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
    if (isCut && middle === "oldest") anchor = part[0]!.seq;
    if (isCut && middle === "newest") anchor = shown.isNewest ? null : part.at(-1)!.seq;
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
      // The conversation does not exist yet: all its messages come as events.
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
      if (error.isRetryable) return void setTimeout(keepLoaded, error.retryAfterMs || AGAIN_MS);
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
  const once = (name: string, move: () => Promise<void>) => {
    const running = moves.get(name) ?? move().finally(() => moves.delete(name));
    moves.set(name, running);
    return running;
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
    loadOlder: async () => {
      await load();
      const before = range()?.older;
      if (before == null) return;
      middle = "oldest";
      if (typeof before === "string") await once(`before ${before}`, () => fetchPage({ before }, { last: PAGE, before }));
      else await once(`before ${before}`, () => fetchPage({ beforeSeq: before }, { first: 2 * PAGE, aroundSeq: before }));
    },
    loadNewer: async () => {
      await load();
      const after = range()?.newer;
      if (after == null) return;
      middle = "newest";
      if (typeof after === "string") await once(`after ${after}`, () => fetchPage({ after }, { first: PAGE, after }));
      else await once(`after ${after}`, () => fetchPage({ afterSeq: after }, { first: 2 * PAGE, aroundSeq: after }));
    },
    jumpTo: async (seq) => {
      [anchor, middle] = [seq, seq ?? "newest"];
      store.clearRefusal(conversationId);
      store.topics.changed(topic);
      await loading;
      await load();
    },
  };
}
