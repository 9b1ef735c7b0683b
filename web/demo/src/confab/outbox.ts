/**
 * Messages that the server has not stored yet. They survive the loss of the network, of the server and of the page.
 *
 * Guarantees: a message is on this device's disk (if the browser has storage) before it is sent, and is deleted when the server has
 * stored it. Each is stored once (every attempt has its idempotencyKey). Messages of one conversation are stored in the order they
 * were written. A message that the server refuses for good is kept apart, for its author to send again or discard.
 */
import type { Client, CombinedError } from "@urql/core";

import { SendMessageDocument, type SendMessageInput } from "../gql";
import { backoff } from "../../../client/src/connection/backoff";
import { disk } from "./disk";

export interface Outgoing {
  /** The idempotencyKey, which identifies the stored message. */
  key: string;
  conversationId: string;
  input: SendMessageInput;
  writtenAt: number;
  /** The reason of the server's refusal; null while the message waits. */
  failure: string | null;
}

export interface Outbox {
  /** All waiting and failed messages, oldest first; the same array as long as nothing changes. */
  items(): readonly Outgoing[];
  onChange(listener: () => void): () => void;
  send(conversationId: string, input: SendMessageInput): void;
  retry(key: string): void;
  discard(key: string): void;
  /** Sends the waiting messages now: when the network is back. */
  wake(): void;
  stop(): void;
}

/** The server remembers a key for 24 hours. A later attempt might store the message twice, so the author decides. */
const KEY_LASTS_MS = 23 * 3600_000;

// Not randomUUID: browsers offer it only on localhost and over https.
export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * True if another attempt with the same key may succeed: there was no answer, or the server says so. A refused token says nothing
 * about the message: it waits for a valid token, here or when its author has signed in again.
 */
export const isRetryable = (error: CombinedError) =>
  error.graphQLErrors.every(({ extensions }) => extensions.retryable === true || extensions.code === "UNAUTHENTICATED");

export function openOutbox(client: Client, place: string): Outbox {
  // One entry per message, so that two tabs do not overwrite each other's. If both send it, its key makes sure it is stored once.
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

  /** Sends the waiting messages of one conversation, one after the other. */
  const work = async (conversationId: string) => {
    if (busy.has(conversationId)) return busy.get(conversationId)!();
    busy.set(conversationId, () => {});
    for (let tries = 0, next; !stopped && (next = items.find((each) => each.conversationId === conversationId && !each.failure)); ) {
      if (Date.now() - next.writtenAt > KEY_LASTS_MS) {
        save({ ...next, failure: "This message has waited for a day." });
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

  const open = new AbortController(); // Its signal removes the listener.
  addEventListener("storage", (event) => event.key?.startsWith(prefix) && changed(), open);
  wake();

  return {
    items: () => items,
    onChange: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    send: (conversationId, input) => {
      // Later than all others, even if the clock was set back.
      const writtenAt = Math.max(Date.now(), (items.at(-1)?.writtenAt ?? 0) + 1);
      save({ key: newKey(), conversationId, input, writtenAt, failure: null });
      changed();
      void work(conversationId);
    },
    retry: (key) => {
      const item = items.find((each) => each.key === key);
      if (!item) return;
      // A refused message was not stored, so it becomes a new message with its own key, after those sent meanwhile.
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
