/**
 * The users that the user has blocked.
 *
 * Guarantees: a change that the server has confirmed is shown at once, also in messages. Changes by other devices are known after the
 * list was loaded again, because the server sends no events about blocks.
 */
import { BlockedUsers, BlockUser, UnblockUser } from "../gql";
import type { Store } from "../store/store";
import { view } from "../store/view";
import type { Api, ConfabClient, ConfabError, User } from "../types";
import { startTimers } from "../waiting";

const BLOCKED = "blocked users";
const RETRY_MS = 2_000;

export interface Blocks extends Pick<ConfabClient, "blockedUsers" | "reloadBlockedUsers" | "blockUser" | "unblockUser"> {
  stop(): void;
}

export function openBlocks(api: Api, store: Store): Blocks {
  const timers = startTimers();
  let users: readonly User[] | undefined;
  /** Changes while the list is being loaded: the answer may be older. */
  let changes: ((users: readonly User[]) => readonly User[])[] = [];
  const change = (by: (users: readonly User[]) => readonly User[]) => {
    changes.push(by);
    users = users && by(users);
    store.topics.changed(BLOCKED);
  };

  let loading: Promise<void> | undefined;
  const fetchAll = async () => {
    changes = [];
    const found: User[] = [];
    let after: string | null | undefined;
    do {
      const { edges, pageInfo } = (await api.request(BlockedUsers, { after })).blockedUsers;
      found.push(...edges.map(({ node }) => node));
      after = pageInfo.hasNextPage ? pageInfo.endCursor : null;
    } while (after);
    users = changes.reduce((now, by) => by(now), found as readonly User[]);
    store.topics.changed(BLOCKED);
  };
  const reload = () => (loading ??= fetchAll().finally(() => (loading = undefined)));
  const load = () => {
    if (users) return;
    reload().catch((error: ConfabError) => void (error.isRetryable && timers.later(RETRY_MS, load)));
  };

  const { get, subscribe } = view(store.topics, [BLOCKED], () => users);
  const without = (userId: string) => (all: readonly User[]) => all.filter(({ id }) => id !== userId);
  return {
    blockedUsers: { get, subscribe: (listener) => (load(), subscribe(listener)) },
    reloadBlockedUsers: reload,
    blockUser: async (user) => {
      await api.request(BlockUser, { id: user.id });
      // A user who is blocked already keeps their place.
      change((all) => (all.some(({ id }) => id === user.id) ? all : [user, ...all]));
      store.setBlocked(user.id, true);
    },
    unblockUser: async (userId) => {
      await api.request(UnblockUser, { id: userId });
      change(without(userId));
      store.setBlocked(userId, false);
    },
    stop: timers.stop,
  };
}
