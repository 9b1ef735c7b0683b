/**
 * The presence of the people who are on the screen.
 *
 * Guarantees: one subscription for all of them, of at most 200 people: those who appeared last. It is replaced when somebody else
 * appears, at most every 300 ms. Known presences stay while a subscription is replaced or the connection is lost.
 */
import { PresenceEvents } from "../gql";
import { cached, view, type Topics } from "../store/view";
import type { Api, Presence, View } from "../types";

const BATCH_MS = 300;
const MAX_USERS = 200;

export interface Presences {
  /** Undefined until the server has answered. The presence is followed while the view has a subscriber. */
  of(userId: string): View<Presence | undefined>;
  stop(): void;
}

export function followPresences(api: Api, topics: Topics): Presences {
  const topic = (userId: string) => `presence ${userId}`;
  const known = new Map<string, Presence>();
  const views = new Map<string, View<Presence | undefined>>();
  /** How often each person is on the screen; the person who appeared last is last. */
  const watched = new Map<string, number>();
  let followed = new Set<string>();
  let unfollow = () => {};
  let timer: ReturnType<typeof setTimeout> | undefined;

  const follow = () => {
    timer = undefined;
    const userIds = [...watched.keys()].slice(-MAX_USERS);
    if (!userIds.length) {
      unfollow();
      followed = new Set();
      return;
    }
    if (userIds.every((each) => followed.has(each))) return;
    followed = new Set(userIds);
    let endEarlier: (() => void) | undefined = unfollow;
    const end = api.subscribe(PresenceEvents, { userIds }, {
      next: ({ presenceEvents: presence }) => {
        endEarlier?.();
        endEarlier = undefined;
        known.set(presence.user.id, presence);
        topics.changed(topic(presence.user.id));
      },
    });
    unfollow = () => (end(), endEarlier?.());
  };
  const watch = (userId: string) => {
    const times = (watched.get(userId) ?? 0) + 1;
    watched.delete(userId);
    watched.set(userId, times);
    timer ??= setTimeout(follow, BATCH_MS);
    let watching = true;
    return () => {
      if (!watching) return;
      watching = false;
      const left = (watched.get(userId) ?? 1) - 1;
      if (left) watched.set(userId, left);
      else watched.delete(userId);
      timer ??= setTimeout(follow, BATCH_MS);
    };
  };

  return {
    of: (userId) =>
      cached(views, userId, () => {
        const { get, subscribe } = view(topics, [topic(userId)], () => known.get(userId));
        return {
          get,
          subscribe: (listener: () => void) => {
            const ends = [subscribe(listener), watch(userId)];
            return () => ends.forEach((end) => end());
          },
        };
      }),
    stop: () => {
      clearTimeout(timer);
      unfollow();
    },
  };
}
