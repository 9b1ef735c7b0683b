/** Messages between the service worker (worker/worker.ts) and the windows of the demo. */

/** From the worker. `isLookedAt` comes with a port, to which the window posts true or false. */
export type FromWorker =
  | { type: "isLookedAt"; conversationId: string }
  | { type: "open"; conversationId: string | null }
  | { type: "subscriptionChanged" };
