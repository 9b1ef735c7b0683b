/** Single sessions. A session that is not in the list is requested: it is archived, belongs to a channel, or does not exist. */
import { Session as SessionQuery } from "../gql";
import { sessionTopic, type Store } from "../store/store";
import { cached, view } from "../store/view";
import type { Api, ConfabError, Session, View } from "../types";
import { startTimers } from "../waiting";

const RETRY_MS = 2_000;

export interface Sessions {
  of(conversationId: string): View<Session | null | undefined>;
  stop(): void;
}

/** ready: resolves when the first screen is loaded. */
export function openSessions(api: Api, store: Store, ready: () => Promise<void>): Sessions {
  const views = new Map<string, View<Session | null | undefined>>();
  const subscribers = new Map<string, number>();
  const loading = new Set<string>();
  const timers = startTimers();
  const load = async (id: string) => {
    if (loading.has(id) || store.session(id) !== undefined || !subscribers.get(id)) return;
    loading.add(id);
    try {
      await ready();
      if (store.session(id) !== undefined) return;
      const { session } = await api.request(SessionQuery, { conversationId: id });
      if (session) store.applySessions([session]);
      else store.setNoSession(id);
    } catch (error) {
      if ((error as ConfabError).isRetryable || store.status === "failed") timers.later(RETRY_MS, () => void load(id));
      else store.setNoSession(id);
    } finally {
      loading.delete(id);
    }
  };
  return {
    of: (id) =>
      cached(views, id, () => {
        const { get, subscribe } = view(store.topics, [sessionTopic(id)], () => store.session(id));
        return {
          get,
          subscribe: (listener: () => void) => {
            const end = subscribe(() => (void load(id), listener()));
            subscribers.set(id, (subscribers.get(id) ?? 0) + 1);
            void load(id);
            let ended = false;
            return () => {
              if (!ended) subscribers.set(id, subscribers.get(id)! - 1);
              ended = true;
              end();
            };
          },
        };
      }),
    stop: timers.stop,
  };
}
