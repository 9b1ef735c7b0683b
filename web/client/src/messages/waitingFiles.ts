import type { Draft, PendingMessage, Upload } from "../types";
import { newKey, type Outbox } from "./outbox";

export interface WaitingForFiles {
  items(): readonly PendingMessage[];
  send(conversationId: string, draft: Draft, files: readonly Upload[]): PendingMessage;
  /** These return false if no such message waits. */
  retry(key: string): boolean;
  discard(key: string): boolean;
}

/**
 * Messages whose files are still being uploaded. When all are ready, the message goes to the outbox. Canceled files are left out.
 * The messages are lost with the page.
 */
export function holdForFiles(outbox: Outbox, changed: () => void): WaitingForFiles {
  let items: readonly (PendingMessage & { files: readonly Upload[] })[] = [];
  const stops = new Map<string, () => void>();
  const replace = (key: string, now?: (typeof items)[number]) => {
    items = items.flatMap((each) => (each.key !== key ? each : (now ?? [])));
    if (!now) {
      stops.get(key)?.();
      stops.delete(key);
    }
  };
  const check = (key: string) => {
    const item = items.find((each) => each.key === key);
    if (!item) return;
    const files = item.files.filter((file) => file.get().status !== "canceled");
    if (!files.length && !item.draft.text) {
      replace(key);
      return changed();
    }
    const states = files.map((file) => file.get());
    const attachmentIds = states.flatMap((state) => state.attachmentId ?? []);
    if (attachmentIds.length === states.length) {
      replace(key);
      outbox.send(item.conversationId, { ...item.draft, attachmentIds }, key);
      return;
    }
    const failure = states.find(({ error }) => error)?.error?.message ?? null;
    if (failure !== item.failure || files.length < item.files.length) replace(key, { ...item, files, failure });
    changed();
  };
  return {
    items: () => items,
    send: (conversationId, draft, files) => {
      const item = { key: newKey(), conversationId, draft, files, writtenAt: Date.now(), failure: null };
      items = [...items, item];
      const ends = files.map((file) => file.subscribe(() => check(item.key)));
      stops.set(item.key, () => ends.forEach((end) => end()));
      changed();
      check(item.key);
      return item;
    },
    retry: (key) => {
      const item = items.find((each) => each.key === key);
      item?.files.forEach((file) => file.retry());
      return !!item;
    },
    discard: (key) => {
      const item = items.find((each) => each.key === key);
      if (item) replace(key);
      item?.files.forEach((file) => file.cancel());
      changed();
      return !!item;
    },
  };
}
