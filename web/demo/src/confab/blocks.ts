/**
 * The people the user has blocked.
 *
 * Guarantees: a change that the server has confirmed shows at once everywhere. What other devices change is there after the next load,
 * because the server tells nobody of blocks.
 */
import type { User } from "@confab/client";
import type { Client } from "@urql/core";

import { BlockedPeopleDocument, BlockPersonDocument, UnblockPersonDocument, type BlockedPeopleQuery } from "../gql";

export interface Blocks {
  /** Undefined until they are loaded. The same object as long as nothing changes. The person blocked last comes first. */
  all(): readonly User[] | undefined;
  onChange(listener: () => void): () => void;
  /** Loads all of them. Never rejects: without an answer, what is known stays. */
  load(): Promise<void>;
  /** Resolves to the server's refusal, or null. */
  block(user: User): Promise<string | null>;
  unblock(user: User): Promise<string | null>;
  stop(): void;
}

const NO_NETWORK = "This needs the network. Try again when you are online.";

export function openBlocks(client: Client): Blocks {
  let people: readonly User[] | undefined;
  const listeners = new Set<() => void>();
  const become = (now: readonly User[]) => {
    people = now;
    listeners.forEach((changed) => changed());
  };
  const change = async (document: typeof BlockPersonDocument | typeof UnblockPersonDocument, { id }: User, after: () => readonly User[]) => {
    const { data, error } = await client.mutation(document, { id }).toPromise();
    if (!data) return error?.graphQLErrors[0]?.message ?? NO_NETWORK;
    become(after());
    return null;
  };
  const without = ({ id }: User) => (people ?? []).filter((each) => each.id !== id);

  return {
    all: () => people,
    onChange: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    load: async () => {
      const found: User[] = [];
      for (let after: string | null | undefined = null; after !== undefined; ) {
        const { data }: { data?: BlockedPeopleQuery } = await client.query(BlockedPeopleDocument, { after }, { requestPolicy: "network-only" }).toPromise();
        if (!data) return;
        found.push(...data.blockedUsers.edges.map(({ node }) => node));
        after = data.blockedUsers.pageInfo.hasNextPage ? data.blockedUsers.pageInfo.endCursor : undefined;
      }
      become(found);
    },
    block: (user) => change(BlockPersonDocument, user, () => [user, ...without(user)]),
    unblock: (user) => change(UnblockPersonDocument, user, () => without(user)),
    stop: () => listeners.clear(),
  };
}
