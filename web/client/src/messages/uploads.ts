/**
 * Uploads of files.
 *
 * Guarantees: a file is stored once, however often its upload is tried: every attempt has its idempotencyKey, and the server answers
 * with the same upload and an address that is valid again. Files are lost with the page, because browsers do not let pages keep them.
 */
import { Attachment, CancelUpload, CompleteUpload, CreateUpload, type CreateUploadMutation } from "../gql";
import { backoff } from "../connection/backoff";
import { Topics, view } from "../store/view";
import { ConfabError, type Api, type Upload, type UploadOptions, type UploadState } from "../types";
import { newKey } from "./outbox";

const MAX_CONCURRENT = 3;
const SCAN_POLL_MS = 1_500;
const NO_LONGER_VALID = [401, 403, 404, 410];
/** Attempts after an unexpected answer: an expired address, or bytes that were damaged on the network. */
const MAX_UNEXPECTED = 3;

type Address = CreateUploadMutation["createUpload"];
/** "again": try until there is an answer. "unexpected": try a limited number of times. */
type Outcome = "ready" | "again" | "unexpected" | ConfabError;

const refused = (message: string, code = "REJECTED") => new ConfabError(message, code, false);

const isLocal = ({ hostname }: URL) => /^(localhost|127\..*|\[::1\])$/.test(hostname);

/** Without a public address, a server names its own machine's in addresses of files. The API's address is one that works here. */
function reachableAddress(address: string, apiUrl: string): string {
  const [url, api] = [new URL(address, apiUrl), new URL(apiUrl)];
  if (!isLocal(url) || (isLocal(api) && api.port !== url.port)) return url.href;
  return new URL(url.pathname + url.search, api).href;
}

/** Browsers read a file only when it is sent. By then it may be changed or deleted. */
const isReadable = (file: Blob) => file.slice(0, 1).arrayBuffer().then(() => true, () => false);

/** Sends the bytes. Returns the status of the answer; 0 without one. */
function put({ url, method, headers }: Address, file: Blob, sent: (part: number) => void, signal: AbortSignal): Promise<number> {
  // The browser sets the length itself.
  const given = headers.filter(({ name }) => !/^(content-length|host)$/i.test(name));
  if (typeof XMLHttpRequest === "undefined") {
    return fetch(url, { method, headers: given.map(({ name, value }): [string, string] => [name, value]), body: file, signal }).then(({ status }) => status, () => 0);
  }
  return new Promise((resolve) => {
    const request = new XMLHttpRequest(); // fetch reports no upload progress.
    request.open(method, url);
    for (const { name, value } of given) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded }) => sent(loaded / file.size);
    request.onloadend = () => resolve(request.status);
    signal.addEventListener("abort", () => request.abort());
    if (signal.aborted) return resolve(0);
    request.send(file);
  });
}

export interface Uploads {
  begin(conversationId: string, file: Blob & { name?: string }, options?: UploadOptions): Upload;
  /** Ends the current waits. Call it when the network is back. */
  wake(): void;
  stop(): void;
}

export function openUploads(api: Api, apiUrl: string): Uploads {
  const topics = new Topics();
  const attempts = new Set<AbortController>();
  let endPauses: (() => void)[] = [];
  const pause = (ms: number, signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      const now = () => (clearTimeout(timer), resolve());
      endPauses.push(now);
      signal.addEventListener("abort", now);
    });

  let running = 0;
  const queue: (() => void)[] = [];
  const inTurn = async <Result>(work: () => Promise<Result>) => {
    if (running >= MAX_CONCURRENT) await new Promise<void>((go) => queue.push(go));
    running += 1;
    try {
      return await work();
    } finally {
      running -= 1;
      queue.shift()?.();
    }
  };

  const begin: Uploads["begin"] = (conversationId, file, { description, spoiler = false, filename = file.name ?? "file" } = {}) => {
    let key = newKey();
    const topic = key;
    let attachmentId: string | null = null;
    let state: UploadState = { status: "sending", progress: 0 };
    const update = (now: UploadState) => {
      state = now;
      topics.changed(topic);
    };
    let controller = new AbortController();

    /** Polls the state until the server has scanned the file. */
    const scanned = async (id: string, first: string, signal: AbortSignal): Promise<Outcome> => {
      for (let now = first; ; ) {
        if (now === "READY") return "ready";
        if (now !== "SCANNING") return refused(now === "REJECTED" ? "This file was refused: it is damaged, or not safe." : "This file is gone. Add it again.");
        if (signal.aborted) return "again";
        await pause(SCAN_POLL_MS, signal);
        now = await api.request(Attachment, { id }).then(({ attachment }) => attachment?.state ?? "REMOVED", (error: ConfabError) => (error.isRetryable ? "SCANNING" : "REMOVED"));
      }
    };

    const attempt = async (signal: AbortSignal): Promise<Outcome> => {
      const input = { filename: filename.slice(-255), sizeBytes: file.size, contentType: file.type || undefined, description: description || undefined, conversationId, spoiler, idempotencyKey: key };
      let status = 0;
      if (signal.aborted) return "again";
      try {
        const upload = (await api.request(CreateUpload, { input })).createUpload;
        attachmentId = upload.id;
        if (signal.aborted) {
          api.request(CancelUpload, { id: upload.id }).catch(() => {});
          return "again";
        }
        const address = { ...upload, url: reachableAddress(upload.url, apiUrl) };
        status = await put(address, file, (progress) => update({ status: "sending", progress }), signal);
        if (status === 413) return refused("This file is too large.", "TOO_LARGE");
        if (NO_LONGER_VALID.includes(status)) return "unexpected";
        if (status === 0 && !(await isReadable(file))) return refused("The file has changed on this device. Add it again.");
        if (status === 0 || status === 408 || status === 429 || status >= 500) return "again";
        // An attempt whose answer was lost may have completed it: then the server accepts no more bytes.
        update({ status: "checking", progress: 1 });
        const { completeUpload } = await api.request(CompleteUpload, { id: upload.id });
        return scanned(upload.id, completeUpload.state, signal);
      } catch (error) {
        const refusal = error as ConfabError;
        if (refusal.isRetryable || refusal.code === "UNAUTHENTICATED") return "again";
        return status && status < 400 ? "unexpected" : refusal;
      }
    };

    const work = async ({ signal }: AbortController) => {
      if (!file.size) return update({ status: "failed", progress: 0, error: refused("This file is empty.", "INVALID_INPUT") });
      for (let tries = 0, unexpected = 0; !signal.aborted; ) {
        const outcome = await inTurn(() => attempt(signal));
        if (signal.aborted) return;
        if (outcome === "ready") return update({ status: "ready", progress: 1, attachmentId: attachmentId! });
        if (outcome instanceof ConfabError) return update({ status: "failed", progress: 0, error: outcome });
        if (outcome === "unexpected" && ++unexpected === MAX_UNEXPECTED) return update({ status: "failed", progress: 0, error: refused("The file did not arrive.", "UNAVAILABLE") });
        update({ status: "sending", progress: 0 });
        await pause(backoff(tries++), signal);
      }
    };
    const start = () => {
      const begun = (controller = new AbortController());
      attempts.add(begun);
      void work(begun).finally(() => attempts.delete(begun));
    };
    start();
    return {
      ...view(topics, [topic], () => state),
      conversationId,
      file,
      cancel: () => {
        controller.abort();
        update({ status: "canceled", progress: 0 });
        if (attachmentId) api.request(CancelUpload, { id: attachmentId }).catch(() => {});
      },
      // A refused upload cannot be used again, so the file gets another one.
      retry: () => {
        if (state.status !== "failed") return;
        controller.abort();
        key = newKey();
        update({ status: "sending", progress: 0 });
        start();
      },
    };
  };

  return {
    begin,
    wake: () => endPauses.splice(0).forEach((now) => now()),
    stop: () => attempts.forEach((each) => each.abort()),
  };
}
