import { backOff } from "./errors.mjs";
import { newKey } from "./outbox.mjs";

const ATTEMPTS = 8;
const REFUSED = [400, 411, 413, 422]; // the bytes are not what was announced

// Sends a file, and returns a promise of its attachment: `chat.send({ conversationId, content, attachmentIds: [attachment.id] })`.
// act: of a Chat. progress(share): called with 0 to 1. signal: of an AbortController, to give up. key: keep it to continue after an
// error, also tomorrow: with the same key the server stores one file, however often this is called.
export async function upload(act, { file, conversationId, description, spoiler, key = newKey(), progress = () => {}, signal }) {
  const input = {
    filename: file.name, sizeBytes: file.size, contentType: file.type || null, conversationId, description, spoiler, idempotencyKey: key,
  };
  for (let attempt = 1; ; attempt += 1) {
    // The same key answers the same upload, with an address that is valid again.
    const { id, ...to } = await act("createUpload", { input });
    signal?.throwIfAborted();
    const status = await put(to, file, progress, signal);
    if (signal?.aborted) {
      await act("cancelUpload", { uploadId: id });
      signal.throwIfAborted();
    }
    // 409: an earlier attempt has completed it.
    if ((status >= 200 && status < 300) || status === 409) return act("completeUpload", { uploadId: id });
    if (REFUSED.includes(status) || attempt === ATTEMPTS) throw new Error(`The file was not stored: status ${status}`);
    await new Promise((resolve) => { setTimeout(resolve, backOff(attempt, 5_000)); });
  }
}

// Returns a promise of the status of the answer; of 0 without an answer. In browsers fetch reports no progress of what it sends.
function put({ url, method, headers }, file, progress, signal) {
  if (!globalThis.XMLHttpRequest) {
    const named = headers.map(({ name, value }) => [name, value]);
    return fetch(url, { method, headers: named, body: file, signal }).then(({ status }) => (progress(1), status), () => 0);
  }
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    for (const { name, value } of headers) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => progress(loaded / total);
    request.onloadend = () => resolve(request.status);
    signal?.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
