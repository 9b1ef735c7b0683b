/**
 * The presence of the people who are on the screen.
 *
 * Guarantees: one subscription for all of them, replaced at most every 300 ms when somebody else comes on the screen, and at least
 * 200 people, those displayed last. What is known stays displayed while a subscription is replaced or the connection is lost, so
 * nothing flickers. People who left the screen stay in the subscription until it is replaced anyway.
 */
import type { Client } from "@urql/core";

import { PresenceEventsDocument, type PresencePartsFragment } from "../gql";

export interface Presences {
  /** Undefined until the server has said it. */
  of(userId: string): PresencePartsFragment | undefined;
  /** The person is on the screen until the returned function is called. */
  watch(userId: string): () => void;
  onChange(userId: string, listener: () => void): () => void;
  stop(): void;
}

const TOGETHER_MS = 300;
const MOST = 200;
const MOST_KEPT = 1000;

export function openPresences(client: Client): Presences {
  const known = new Map<string, PresencePartsFragment>();
  /** How often each person is on the screen; those that came last are last. */
  const watched = new Map<string, number>();
  const listeners = new Map<string, Set<() => void>>();
  let followed = new Set<string>();
  let unfollow = () => {};
  let timer: ReturnType<typeof setTimeout> | undefined;

  const take = (presence: PresencePartsFragment) => {
    known.delete(presence.user.id);
    known.set(presence.user.id, presence);
    if (known.size > MOST_KEPT) known.delete(known.keys().next().value!);
    listeners.get(presence.user.id)?.forEach((changed) => changed());
  };

  const follow = () => {
    timer = undefined;
    const userIds = [...watched.keys()].slice(-MOST);
    if (!userIds.length || userIds.every((each) => followed.has(each))) return;
    followed = new Set(userIds);
    const before = unfollow;
    let first = true;
    unfollow = client.subscription(PresenceEventsDocument, { userIds }).subscribe(({ data }) => {
      if (data) take(data.presenceEvents);
      // The earlier subscription ends when this one has begun.
      if (first) (before(), (first = false));
    }).unsubscribe;
  };

  return {
    of: (userId) => known.get(userId),
    watch: (userId) => {
      const times = (watched.get(userId) ?? 0) + 1;
      watched.delete(userId);
      watched.set(userId, times);
      if (!followed.has(userId)) timer ??= setTimeout(follow, TOGETHER_MS);
      return () => {
        const left = (watched.get(userId) ?? 1) - 1;
        if (left) watched.set(userId, left);
        else watched.delete(userId);
      };
    },
    onChange: (userId, listener) => {
      const all = listeners.get(userId) ?? new Set();
      listeners.set(userId, all.add(listener));
      return () => {
        all.delete(listener);
        if (!all.size && listeners.get(userId) === all) listeners.delete(userId);
      };
    },
    stop: () => {
      clearTimeout(timer);
      unfollow();
      listeners.clear();
    },
  };
}
