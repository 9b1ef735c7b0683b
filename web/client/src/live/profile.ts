import { UpdateMe } from "../gql";
import { view, type Topics } from "../store/view";
import type { Api, ConfabClient, User, View } from "../types";

const ME = "me";

export interface Profile {
  me: View<User | undefined>;
  set(user: User): void;
  update: ConfabClient["updateProfile"];
}

/** The profile of the user. */
export function openProfile(api: () => Api, topics: Topics): Profile {
  let user: User | undefined;
  const set = (now: User) => {
    user = now;
    topics.changed(ME);
  };
  return {
    me: view(topics, [ME], () => user),
    set,
    update: async (change) => {
      const { updateMe } = await api().request(UpdateMe, change);
      set(updateMe);
      return updateMe;
    },
  };
}
