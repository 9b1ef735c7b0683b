export { createClient } from "./client";
export { ERASED_NAME, isErased, peerIn, privateId, threadId, threadIn, THREADS } from "./ids";
export { newKey } from "./messages/outbox";
export * from "./types";
