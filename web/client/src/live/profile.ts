import { UpdateMe } from "../gql";
import { view, type Topics } from "../store/view";
import type { Api, ConfabClient, Presence, User, View } from "../types";

const ME = "me";

export interface Profile {
  me: View<User | undefined>;
  set(user: User): void;
  update: ConfabClient["updateProfile"];
}

/** The profile of the user. own: their presence, whose events tell of changes by other devices. */
export function openProfile(api: () => Api, topics: Topics, own: View<Presence | undefined>): Profile {
  let user: User | undefined;
  const set = (now: User) => {
    user = now;
    topics.changed(ME);
  };
  const { get, subscribe } = view(topics, [ME], () => user);
  const follow = () => {
    const now = own.get()?.user;
    if (now && user && (now.displayName !== user.displayName || now.avatarUrl !== user.avatarUrl)) set(now);
  };
  return {
    me: {
      get,
      subscribe: (listener) => {
        const ends = [subscribe(listener), own.subscribe(follow)];
        return () => ends.forEach((end) => end());
      },
    },
    set,
    update: async (change) => {
      const { updateMe } = await api().request(UpdateMe, change);
      set(updateMe);
      return updateMe;
    },
  };
}
