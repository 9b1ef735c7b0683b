/**
 * Files on their way to Confab, and the messages that wait for them.
 *
 * Guarantees: a file is stored once, however often its upload is tried: every attempt has its idempotencyKey, and the server answers
 * with the same upload and an address that is valid again. A message is sent when all its files are ready. Files are lost with the
 * page, because browsers do not let pages keep them.
 */
import { threadIn } from "@confab/client";
import type { Client } from "@urql/core";

import { CancelUploadDocument, CompleteUploadDocument, CreateUploadDocument, FileDocument } from "../gql";
import type { AttachmentState, CreateUploadMutation, SendMessageInput } from "../gql";
import { backoff } from "../../../client/src/connection/backoff";
import { isRetryable, newKey, type Outbox } from "./outbox";
import { reachable } from "./addresses";

export interface FileUpload {
  /** The idempotencyKey of the upload. */
  key: string;
  conversationId: string;
  file: File;
  /** An address of the picture on this device; null for other files. */
  localPicture: string | null;
  /** What the picture shows, for people who do not see it. */
  description: string;
  spoiler: boolean;
  /** The part that the server has, 0 to 1. */
  progress: number;
  state: "sending" | "checking" | "ready" | "failed";
  failure: string | null;
  /** The attachment's id, once there is one. */
  id: string | null;
}

/** A message that waits for its files. */
export interface HeldMessage {
  key: string;
  conversationId: string;
  input: SendMessageInput;
  writtenAt: number;
  files: readonly string[];
}

export interface Uploads {
  /** All files that no message is sent with yet, oldest first; the same array as long as nothing changes. */
  files(): readonly FileUpload[];
  heldMessages(): readonly HeldMessage[];
  /** The picture of an attachment that was sent from this page. */
  localPictureOf(attachmentId: string): string | null;
  onChange(listener: () => void): () => void;
  add(conversationId: string, files: Iterable<File>): void;
  /** Uploads the file again with another description. */
  describe(key: string, change: Partial<Pick<FileUpload, "description" | "spoiler">>): void;
  cancel(key: string): void;
  retry(key: string): void;
  /** Sends a message with some files as soon as they are ready. */
  send(conversationId: string, input: SendMessageInput, files: readonly string[]): void;
  discard(held: string): void;
  /** Tries again now: when the network is back. */
  wake(): void;
  stop(): void;
}

export const MOST_FILES = 10;
const AT_ONCE = 3;
const SCAN_AGAIN_MS = 1_500;
const NO_LONGER_VALID = new Set([401, 403, 404, 410]);
/** Attempts after an answer that should not happen again: another address, or bytes that were damaged on their way. */
const MOST_UNEXPECTED = 3;

type Outcome = { state: "ready" | "failed"; failure: string | null } | "again" | "unexpected";
const failed = (failure: string): Outcome => ({ state: "failed", failure });

/** Browsers read a file when it is sent: it may have changed, or be gone. */
const isReadable = (file: File) => file.slice(0, 1).arrayBuffer().then(() => true, () => false);

export function openUploads(client: Client, outbox: Outbox): Uploads {
  let files: readonly FileUpload[] = [];
  let heldMessages: readonly HeldMessage[] = [];
  let stopped = false;
  const localPictures = new Map<string, string>();
  const attempts = new Map<string, AbortController>();
  const listeners = new Set<() => void>();
  const changed = () => listeners.forEach((tell) => tell());
  const find = (key: string) => files.find((each) => each.key === key);
  const update = (key: string, change: Partial<FileUpload>) => {
    files = files.map((each) => (each.key === key ? { ...each, ...change } : each));
    changed();
  };

  // --- waiting: for the network, and for one of the places
  let hurry = new Set<() => void>();
  const pause = (ms: number, signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      const now = () => (clearTimeout(timer), resolve());
      hurry.add(now);
      signal.addEventListener("abort", now);
    });
  let running = 0;
  const queue: (() => void)[] = [];
  const inPlace = async <Result>(work: () => Promise<Result>) => {
    if (running >= AT_ONCE) await new Promise<void>((go) => queue.push(go));
    running += 1;
    try {
      return await work();
    } finally {
      running -= 1;
      queue.shift()?.();
    }
  };

  /** Sends the bytes. Returns the status of the answer; 0 without one. */
  const put = (key: string, upload: CreateUploadMutation["createUpload"], file: File, signal: AbortSignal) =>
    new Promise<number>((resolve) => {
      const request = new XMLHttpRequest(); // fetch reports no progress of what it sends.
      request.open(upload.method, reachable(upload.url));
      // The browser sets the length itself.
      for (const { name, value } of upload.headers) if (!/^(content-length|host)$/i.test(name)) request.setRequestHeader(name, value);
      request.upload.onprogress = ({ loaded }) => update(key, { progress: loaded / file.size });
      request.onloadend = () => resolve(request.status);
      signal.addEventListener("abort", () => request.abort());
      if (signal.aborted) return resolve(0);
      request.send(file);
    });

  const judge = (state: AttachmentState): Outcome | null => {
    if (state === "READY") return { state: "ready", failure: null };
    if (state === "SCANNING") return null;
    return failed(state === "REJECTED" ? "This file was refused: it is damaged, or not safe." : "This file is gone. Add it again.");
  };

  const attempt = async ({ key, file, conversationId, description, spoiler }: FileUpload, signal: AbortSignal): Promise<Outcome> => {
    if (!file.size) return failed("This file is empty.");
    const input = {
      filename: file.name.slice(-255) || "file",
      sizeBytes: file.size,
      contentType: file.type || undefined,
      description: description || undefined,
      // A thread does not exist before its first reply; its files may be those of the conversation.
      conversationId: threadIn(conversationId)?.conversationId ?? conversationId,
      spoiler,
      idempotencyKey: key,
    };
    const created = await client.mutation(CreateUploadDocument, { input }).toPromise();
    if (created.error) return isRetryable(created.error) ? "again" : failed(created.error.graphQLErrors[0]!.message);
    const upload = created.data!.createUpload;
    update(key, { id: upload.id });
    if (signal.aborted) return "again";

    const status = await put(key, upload, file, signal);
    if (status === 413) return failed("This file is too large.");
    if (NO_LONGER_VALID.has(status)) return "unexpected";
    if (status === 0 && !(await isReadable(file))) return failed("The file has changed on this device. Add it again.");
    if (status === 0 || status === 408 || status === 429 || status >= 500) return "again";
    // It may have been completed by an attempt without an answer: then the server takes no more bytes.
    update(key, { state: "checking", progress: 1 });

    const completed = await client.mutation(CompleteUploadDocument, { id: upload.id }).toPromise();
    if (completed.error) {
      if (isRetryable(completed.error)) return "again";
      return status >= 400 ? failed(completed.error.graphQLErrors[0]!.message) : "unexpected";
    }
    for (let state = completed.data!.completeUpload.state; ; ) {
      const outcome = judge(state);
      if (outcome || signal.aborted) return outcome ?? "again";
      await pause(SCAN_AGAIN_MS, signal);
      const { data } = await client.query(FileDocument, { id: upload.id }, { requestPolicy: "network-only" }).toPromise();
      state = data ? (data.attachment?.state ?? "REMOVED") : state;
    }
  };

  const work = async (key: string) => {
    const controller = new AbortController();
    attempts.set(key, controller);
    for (let tries = 0, unexpected = 0; !controller.signal.aborted; ) {
      const item = find(key);
      if (!item) return;
      const outcome = await inPlace(() => attempt(item, controller.signal));
      if (controller.signal.aborted) return;
      if (outcome === "unexpected" && (unexpected += 1) === MOST_UNEXPECTED) update(key, { state: "failed", failure: "The file did not arrive." });
      else if (outcome !== "again" && outcome !== "unexpected") update(key, outcome);
      else {
        update(key, { state: "sending", progress: 0 });
        await pause(backoff(tries++), controller.signal);
        continue;
      }
      break;
    }
    attempts.delete(key);
    deliver();
  };

  /** Hands over the messages whose files are ready. */
  const deliver = () => {
    for (const held of heldMessages) {
      const its = held.files.map((key) => find(key)!);
      if (!its.every(({ state }) => state === "ready")) continue;
      its.forEach(({ id, localPicture }) => localPicture && localPictures.set(id!, localPicture));
      heldMessages = heldMessages.filter((each) => each !== held);
      files = files.filter(({ key }) => !held.files.includes(key));
      outbox.send(held.conversationId, { ...held.input, attachmentIds: its.map(({ id }) => id!) });
    }
    changed();
  };

  const abort = (key: string) => {
    attempts.get(key)?.abort();
    attempts.delete(key);
    const id = find(key)?.id;
    if (id) void client.mutation(CancelUploadDocument, { id }).toPromise();
  };
  const drop = (key: string) => {
    abort(key);
    const localPicture = find(key)?.localPicture;
    if (localPicture) URL.revokeObjectURL(localPicture);
    files = files.filter((each) => each.key !== key);
  };
  const startAgain = (key: string, change: Partial<FileUpload>) => {
    abort(key);
    const next = newKey();
    files = files.map((each) => (each.key === key ? { ...each, ...change, key: next, id: null, progress: 0, state: "sending", failure: null } : each));
    heldMessages = heldMessages.map((each) => ({ ...each, files: each.files.map((its) => (its === key ? next : its)) }));
    changed();
    void work(next);
  };

  return {
    files: () => files,
    heldMessages: () => heldMessages,
    localPictureOf: (attachmentId) => localPictures.get(attachmentId) ?? null,
    onChange: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    add: (conversationId, chosen) => {
      for (const file of chosen) {
        const localPicture = /^image\/(?!svg)/.test(file.type) ? URL.createObjectURL(file) : null;
        const key = newKey();
        files = [...files, { key, conversationId, file, localPicture, description: "", spoiler: false, progress: 0, state: "sending", failure: null, id: null }];
        void work(key);
      }
      changed();
    },
    describe: startAgain,
    cancel: (key) => {
      drop(key);
      heldMessages = heldMessages.map((each) => ({ ...each, files: each.files.filter((its) => its !== key) }));
      const empty = (each: HeldMessage) => !each.files.length && !each.input.content;
      heldMessages = heldMessages.filter((each) => !empty(each));
      deliver();
    },
    // A refused upload is over, so the file gets another one.
    retry: (key) => startAgain(key, {}),
    send: (conversationId, input, keys) => {
      heldMessages = [...heldMessages, { key: newKey(), conversationId, input, writtenAt: Date.now(), files: keys }];
      deliver();
    },
    discard: (key) => {
      heldMessages.find((each) => each.key === key)?.files.forEach(drop);
      heldMessages = heldMessages.filter((each) => each.key !== key);
      changed();
    },
    wake: () => {
      const waiting = hurry;
      hurry = new Set();
      waiting.forEach((now) => now());
    },
    stop: () => {
      if (stopped) return;
      stopped = true;
      attempts.forEach((each) => each.abort());
      listeners.clear();
    },
  };
}
