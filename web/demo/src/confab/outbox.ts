/**
 * What was written and is not yet stored by the server: it survives the loss of the network, of the server and of the page.
 *
 * Promises: a message is on this device's disk (where the browser lends one) before it is sent, and leaves it when the server has
 * stored it; each is stored once (its idempotencyKey goes with every try); within a conversation they are stored in the order they
 * were written. One that the server refuses for good stands aside, for its author to try again or discard.
 */
import type { Client, CombinedError } from "@urql/core";

import { SendMessageDocument, type SendMessageInput } from "../gql";
import { backoff } from "./backoff";
import { disk } from "./disk";

export interface Outgoing {
  /** The idempotencyKey, by which the message that comes back is known. */
  key: string;
  conversationId: string;
  input: SendMessageInput;
  writtenAt: number;
  /** Why the server refused it; null while it waits. */
  failure: string | null;
}

export interface Outbox {
  /** All that wait or have failed, oldest first; the same array as long as nothing changes. */
  items(): readonly Outgoing[];
  onChange(listener: () => void): () => void;
  send(conversationId: string, input: SendMessageInput): void;
  retry(key: string): void;
  discard(key: string): void;
  /** Tries what waits now: when the network is back. */
  wake(): void;
  stop(): void;
}

/** The server knows a key for 24 hours. After that another try might store a message twice: it's for the author to decide. */
const KEY_LASTS_MS = 23 * 3600_000;

// Not randomUUID, which browsers have on localhost and over https alone.
const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * Whether trying again with the same key may succeed: nothing was answered at all, or the server says so. A refused token says nothing
 * of the message: it waits for a good one, here or when its author has signed in again.
 */
export const isRetryable = (error: CombinedError) =>
  error.graphQLErrors.every(({ extensions }) => extensions.retryable === true || extensions.code === "UNAUTHENTICATED");

export function openOutbox(client: Client, place: string): Outbox {
  // One entry a message, so that two tabs don't overwrite each other's; both sending the same is what keys are for.
  const prefix = `${place}.outbox.`;
  const load = () =>
    disk.names(prefix)
      .map((name) => JSON.parse(disk.get(name)!) as Outgoing)
      .sort((a, b) => a.writtenAt - b.writtenAt);
  const save = (item: Outgoing) => disk.set(prefix + item.key, JSON.stringify(item));

  let items: readonly Outgoing[] = load();
  let stopped = false;
  const listeners = new Set<() => void>();
  const busy = new Map<string, () => void>();
  const changed = () => {
    items = load();
    listeners.forEach((tell) => tell());
  };

  /** Sends what waits in one conversation, one after the other. */
  const work = async (conversationId: string) => {
    if (busy.has(conversationId)) return busy.get(conversationId)!();
    busy.set(conversationId, () => {});
    for (let tries = 0, next; !stopped && (next = items.find((each) => each.conversationId === conversationId && !each.failure)); ) {
      if (Date.now() - next.writtenAt > KEY_LASTS_MS) {
        save({ ...next, failure: "This has waited for a day." });
        changed();
        continue;
      }
      const { error } = await client.mutation(SendMessageDocument, { input: { ...next.input, idempotencyKey: next.key } }).toPromise();
      if (error && isRetryable(error)) {
        const asked = error.graphQLErrors[0]?.extensions.retryAfterMs;
        const wait = typeof asked === "number" ? asked : backoff(tries++);
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, wait);
          busy.set(conversationId, () => (clearTimeout(timer), resolve()));
        });
        continue;
      }
      tries = 0;
      if (error) save({ ...next, failure: error.graphQLErrors[0]?.message ?? error.message });
      else disk.remove(prefix + next.key);
      changed();
    }
    busy.delete(conversationId);
  };
  const wake = () => new Set(items.map((each) => each.conversationId)).forEach((each) => void work(each));

  const open = new AbortController(); // Its signal takes the listener off.
  addEventListener("storage", (event) => event.key?.startsWith(prefix) && changed(), open);
  wake();

  return {
    items: () => items,
    onChange: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    send: (conversationId, input) => {
      // Later than all others, even where the clock was set back.
      const writtenAt = Math.max(Date.now(), (items.at(-1)?.writtenAt ?? 0) + 1);
      save({ key: newKey(), conversationId, input, writtenAt, failure: null });
      changed();
      void work(conversationId);
    },
    retry: (key) => {
      const item = items.find((each) => each.key === key);
      if (!item) return;
      // Refused for good means not stored, so it's a new message, with a key of its own, after those that went out meanwhile.
      disk.remove(prefix + key);
      save({ ...item, key: newKey(), writtenAt: Date.now(), failure: null });
      changed();
      void work(item.conversationId);
    },
    discard: (key) => {
      disk.remove(prefix + key);
      changed();
    },
    wake,
    stop: () => {
      stopped = true;
      busy.forEach((hurry) => hurry());
      open.abort();
      listeners.clear();
    },
  };
}
