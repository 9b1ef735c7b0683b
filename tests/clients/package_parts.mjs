// For the programs of the package @confab/client: users with a client, whose sockets can be cut.
import WebSocket from "ws";
import { createClient } from "../web/client/index.mjs";
import { jwt, server, sleep } from "./scenario.mjs";

export const sockets = new Set();
export class CuttableSocket extends WebSocket {
  constructor(...given) {
    super(...given);
    sockets.add(this);
    this.on("close", () => sockets.delete(this));
  }
}
export const cut = () => { for (const socket of sockets) socket.terminate(); };

export function signIn(user, options = {}) {
  const token = { token: jwt(user), userId: user, expiresAt: Date.now() + 3600_000 };
  const tokens = { current: () => token, renew: async () => token };
  return createClient({ url: server, tokens, device: { deviceId: `of ${user}`, deviceType: "WEB" }, webSocket: CuttableSocket, ...options });
}

/** Storage as browsers have it. */
export class Disk {
  entries = new Map();
  get length() { return this.entries.size; }
  key(index) { return [...this.entries.keys()][index] ?? null; }
  getItem(name) { return this.entries.get(name) ?? null; }
  setItem(name, value) { this.entries.set(name, value); }
  removeItem(name) { this.entries.delete(name); }
}

/** A busy machine refuses some requests. */
export async function retried(act) {
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (!error.isRetryable) throw error;
      await sleep(100);
    }
  }
}

export const texts = (history) => history.get().messages.filter(({ contentType }) => contentType !== "SYSTEM").map(({ content }) => content);
/** Keeps a view loaded. Returns it. */
export const open = (view) => (view.subscribe(() => {}), view);
export const done = (what) => console.log(`ok ${what}`);
