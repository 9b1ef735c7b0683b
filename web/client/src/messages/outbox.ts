/**
 * Messages that the server has not stored yet. They survive the loss of the network, of the server and of the page.
 *
 * Guarantees: a message is on this device's disk (if there is one) before it is sent, and leaves it when the server has stored it.
 * Each is stored once: every attempt has its idempotencyKey. Messages of one conversation are stored in the order they were written.
 * Two tabs of one user send one after the other where the browser has locks, and see each other's messages.
 */
import { backoff } from "../connection/backoff";
import type { Disk } from "../disk";
import { ConfabError, type Draft, type PendingMessage } from "../types";

/** The server remembers a key for 24 hours. A later attempt might store the message twice, so the author decides. */
const KEY_LASTS_MS = 23 * 3600_000;

export function newKey(): string {
  const bytes = new Uint8Array(16);
  if (typeof crypto === "object") crypto.getRandomValues(bytes);
  else bytes.forEach((_, index) => (bytes[index] = Math.random() * 256));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export interface Outbox {
  /** Oldest first; the same array as long as nothing changes. */
  items(): readonly PendingMessage[];
  send(conversationId: string, draft: Draft, key?: string): PendingMessage;
  retry(key: string): void;
  discard(key: string): void;
  /** Sends the waiting messages now. */
  wake(): void;
  stop(): void;
}

/** prefix: of the names on the disk. Each message has an entry, so that two tabs do not overwrite each other's. */
export function openOutbox(disk: Disk, prefix: string, deliver: (item: PendingMessage) => Promise<void>, changedItems: () => void): Outbox {
  const read = (name: string): PendingMessage[] => {
    try {
      return [JSON.parse(disk.get(name) ?? "") as PendingMessage];
    } catch {
      return []; // Another tab has removed it, or something else wrote there.
    }
  };
  const load = () => disk.names(prefix).flatMap(read).sort((a, b) => a.writtenAt - b.writtenAt);
  const save = (item: PendingMessage) => disk.set(prefix + item.key, JSON.stringify(item));
  let items: readonly PendingMessage[] = load();
  let stopped = false;
  const changed = () => {
    items = load();
    changedItems();
  };

  /** Conversations whose messages are being sent, each with a function that ends its current wait. */
  const busy = new Map<string, () => void>();
  const work = async (conversationId: string) => {
    if (busy.has(conversationId)) return busy.get(conversationId)!();
    busy.set(conversationId, () => {});
    let hasBegun = false;
    const run = () => ((hasBegun = true), sendAll(conversationId));
    try {
      await (globalThis.navigator?.locks ? navigator.locks.request(prefix + conversationId, run) : run());
    } catch (error) {
      // Browsers refuse locks where they refuse storage.
      if (hasBegun) throw error;
      await run();
    } finally {
      busy.delete(conversationId);
    }
    // One may have been written after the last look.
    if (!stopped && nextOf(conversationId)) void work(conversationId);
  };
  const nextOf = (conversationId: string) => items.find((each) => each.conversationId === conversationId && !each.failure);
  const sendAll = async (conversationId: string) => {
    items = load();
    for (let tries = 0, next; !stopped && (next = nextOf(conversationId)); ) {
      const { key } = next;
      let failure: string | null = Date.now() - next.writtenAt > KEY_LASTS_MS ? "This message has waited for a day." : null;
      try {
        if (!failure) await deliver(next);
        tries = 0;
      } catch (error) {
        const refusal = error as ConfabError;
        // A refused token says nothing about the message.
        if (refusal.isRetryable || refusal.code === "UNAUTHENTICATED") {
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, refusal.retryAfterMs || backoff(tries++));
            busy.set(conversationId, () => (clearTimeout(timer), resolve()));
          });
          items = load();
          continue;
        }
        failure = refusal.message;
      }
      if (!failure) disk.remove(prefix + key);
      if (stopped) return;
      // Otherwise it was discarded meanwhile.
      if (failure && disk.get(prefix + key) !== null) save({ ...next, failure });
      changed();
    }
  };
  const wake = () => new Set(items.map((each) => each.conversationId)).forEach((each) => void work(each));

  const add = (conversationId: string, draft: Draft, key = newKey()): PendingMessage => {
    // Later than all others, even if the clock was set back.
    const writtenAt = Math.max(Date.now(), (items.at(-1)?.writtenAt ?? 0) + 1);
    const item = { key, conversationId, draft, writtenAt, failure: null };
    save(item);
    changed();
    void work(conversationId);
    return item;
  };

  const fromOtherTab = (event: { key?: string | null }) => void (event.key?.startsWith(prefix) && changed());
  const page = typeof globalThis.addEventListener === "function" ? globalThis : undefined;
  page?.addEventListener("storage", fromOtherTab as EventListener);
  return {
    items: () => items,
    send: add,
    retry: (key) => {
      const item = items.find((each) => each.key === key && each.failure);
      if (!item) return;
      disk.remove(prefix + key);
      add(item.conversationId, item.draft);
    },
    discard: (key) => {
      disk.remove(prefix + key);
      changed();
    },
    wake,
    stop: () => {
      stopped = true;
      busy.forEach((hurry) => hurry());
      page?.removeEventListener("storage", fromOtherTab as EventListener);
    },
  };
}
