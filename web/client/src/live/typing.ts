/** The users who are typing. They are hidden after 8 s, after TypingStopped, or with the next message, as the contract says. */
import { StartTyping, StopTyping } from "../gql";
import { cached, view, type Topics } from "../store/view";
import type { Api, User, View } from "../types";

const HIDE_AFTER_MS = 8_000;
/** The server sends a signal to the others at most once in this time. */
const SEND_EVERY_MS = 3_000;

export interface Typing {
  /** In the order in which they began. */
  of(conversationId: string): View<readonly User[]>;
  started(conversationId: string, user: User): void;
  stopped(conversationId: string, userId: string): void;
  /** Sends a signal at most once in 3 s, so it may be called for every key. Failures are ignored. */
  start(conversationId: string): void;
  stop(conversationId: string): void;
  end(): void;
}

export function followTyping(api: () => Api, topics: Topics, me: string): Typing {
  const topic = (conversationId: string) => `typing ${conversationId}`;
  const typing = new Map<string, Map<string, { user: User; timer: ReturnType<typeof setTimeout> }>>();
  const views = new Map<string, View<readonly User[]>>();
  const sentAt = new Map<string, number>();
  const stopped = (conversationId: string, userId: string) => {
    const here = typing.get(conversationId);
    const entry = here?.get(userId);
    if (!here || !entry) return;
    clearTimeout(entry.timer);
    here.delete(userId);
    topics.changed(topic(conversationId));
  };
  return {
    of: (id) => cached(views, id, () => view(topics, [topic(id)], () => [...(typing.get(id)?.values() ?? [])].map(({ user }) => user))),
    started: (id, user) => {
      if (user.id === me) return;
      const here = typing.get(id) ?? new Map();
      typing.set(id, here);
      clearTimeout(here.get(user.id)?.timer);
      here.set(user.id, { user, timer: setTimeout(() => stopped(id, user.id), HIDE_AFTER_MS) });
      topics.changed(topic(id));
    },
    stopped,
    start: (conversationId) => {
      const now = Date.now();
      const since = now - (sentAt.get(conversationId) ?? -Infinity);
      if (since >= 0 && since < SEND_EVERY_MS) return;
      sentAt.set(conversationId, now);
      api().request(StartTyping, { conversationId }).catch(() => {});
    },
    stop: (conversationId) => {
      if (sentAt.delete(conversationId)) api().request(StopTyping, { conversationId }).catch(() => {});
    },
    end: () => typing.forEach((here) => here.forEach(({ timer }) => clearTimeout(timer))),
  };
}
