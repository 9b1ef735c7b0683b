/** Messages between the service worker (worker/worker.ts) and the windows of the demo. */

/** From the worker. `isOnScreen` comes with a port, to which the window posts true or false. */
export type FromWorker =
  | { type: "isOnScreen"; conversationId: string }
  | { type: "open"; conversationId: string | null }
  | { type: "subscriptionChanged" };
