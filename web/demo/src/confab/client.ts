/**
 * The connection: queries and mutations over HTTP, subscriptions over one WebSocket, and with them the operations that concern this
 * device. It executes what the state machine decides (client/src/connection/machine.ts).
 *
 * Guarantees: no request is sent with a token that is about to expire. The socket outlives its token (renewAuth) and the network: it
 * reconnects automatically, and each subscription resumes after its last event (streams.ts).
 */
import { Client, fetchExchange, subscriptionExchange, type Exchange } from "@urql/core";
import { authExchange } from "@urql/exchange-auth";
import { createClient } from "graphql-ws";

import { watchUse } from "./activity";
import { orderAnswers } from "./answers";
import { cache } from "./cache";
import type { Device } from "./device";
import { initialState, step, type Action, type Event, type State } from "../../../client/src/connection/machine";
import { forwardedTo } from "./streams";

export interface Token {
  token: string;
  userId: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
}

/** The source of tokens: in your product, your own sign-in service. */
export interface Tokens {
  current(): Token;
  /** Fetches a new token for the same user. Null if there is none: the user has to sign in again. Rejects if there may be one later. */
  renew(): Promise<Token | null>;
}

export interface Connection {
  client: Client;
  state(): State;
  /** Called when the state of the connection, or of its user, has changed. */
  onChange(listener: () => void): () => void;
  /** The first screen is there; these streams follow it. */
  ready(streams: readonly string[]): void;
  close(): void;
}

export interface Handlers {
  /** Ask for the first screen, and call `ready`. Also called to refresh it, when too much was missed. */
  loadScreen: () => void;
  /** No token can be had any more, or this device was removed. */
  signedOut: (why: string) => void;
  /** The socket was closed with a final code: close this connection and open another. */
  startOver: () => void;
}

/** For operations that concern this device: the server knows it by its socket. */
export const ON_SOCKET = { onSocket: true };

const RENEW = "mutation RenewAuth($token: String!) { renewAuth(token: $token) }";
const REPORT = "mutation ReportActivity($active: Boolean!) { reportActivity(active: $active) { shown } }";
const RENEW_BEFORE_MS = 60_000;
const PING_EVERY_MS = 10_000;
const PONG_WITHIN_MS = 5_000;
/** Timers of browsers fire at once for longer times. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export function connect(tokens: Tokens, device: Device, handlers: Handlers): Connection {
  const endsSoon = () => tokens.current().expiresAt - Date.now() < RENEW_BEFORE_MS;
  const signOut = (why: string) => (dispatch({ type: "signedOut" }), handlers.signedOut(why));
  const renew = async () => {
    const token = await tokens.renew();
    if (!token) signOut("You have been signed out.");
    return token;
  };

  let state = initialState(Date.now());
  const listeners = new Set<() => void>();
  const dispatch = (event: Event) => {
    const before = state;
    const [next, actions] = step(state, event);
    state = next;
    actions.forEach(execute);
    if (next.connection !== before.connection || next.connected !== before.connected || next.failures !== before.failures || next.user !== before.user) listeners.forEach((changed) => changed());
  };

  /** A token may be refused long before it expires: if it was revoked, or if the server's keys have changed. */
  let refused = false;
  let opening: ReturnType<typeof setTimeout> | undefined;
  let checking: ReturnType<typeof setTimeout> | undefined;
  const execute = (action: Action): void => {
    switch (action.do) {
      case "open":
        clearTimeout(opening);
        opening = setTimeout(open, action.afterMs);
        return;
      case "renewToken":
        refused = true;
        return;
      case "loadScreen":
        return queueMicrotask(handlers.loadScreen); // Not before the caller has the connection.
      case "startOver":
        opening = setTimeout(handlers.startOver, action.afterMs);
        return;
      case "signOut":
        return signOut(action.why);
      case "report":
        return void send(REPORT, { active: action.active }).catch(() => {}); // The next connection begins as used.
      case "checkUse":
        clearTimeout(checking);
        checking = setTimeout(() => dispatch({ type: "unused", now: Date.now() }), action.at - Date.now());
    }
  };

  /** graphql-ws waits for this before it opens the socket again. */
  let mayOpen = false;
  let waiting = () => {};
  const open = () => {
    mayOpen = true;
    waiting();
  };
  let accepted: WebSocket | undefined;
  let pongDue: ReturnType<typeof setTimeout> | undefined;
  let renewal: ReturnType<typeof setTimeout> | undefined;
  const socket = createClient({
    url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/graphql`,
    connectionParams: async () => {
      // If this fails, the old token is refused, and everything is tried again a little later.
      if (refused || endsSoon()) await renew().catch(() => {});
      return { authorization: `Bearer ${tokens.current().token}`, ...device };
    },
    lazy: false,
    retryAttempts: Infinity,
    shouldRetry: () => state.connection !== "Disconnected",
    retryWait: () =>
      new Promise((resolve) => {
        waiting = () => mayOpen && resolve();
        waiting();
      }),
    keepAlive: PING_EVERY_MS,
    on: {
      connecting: () => (mayOpen = false),
      opened: () => dispatch({ type: "opened" }),
      connected: (socket) => {
        accepted = socket as WebSocket;
        refused = false;
        dispatch({ type: "acknowledged", now: Date.now() });
        scheduleRenewal();
      },
      closed: (event) => {
        const { code, reason, target } = event as CloseEvent;
        // A socket that failed may report its end only after the next one was accepted.
        if (accepted && target && target !== accepted) return;
        accepted = undefined;
        clearTimeout(renewal);
        clearTimeout(pongDue);
        dispatch({ type: "closed", code, reason, chance: Math.random() });
      },
      // A socket that died while the computer slept looks alive until it is used.
      ping: (received) => {
        if (!received) pongDue = setTimeout(() => socket.terminate(), PONG_WITHIN_MS);
      },
      pong: () => clearTimeout(pongDue),
    },
    onNonLazyError: () => {}, // `closed` has said it.
  });
  const send = async (query: string, variables: Record<string, unknown>) => {
    for await (const _ of socket.iterate({ query, variables }));
  };

  const scheduleRenewal = () => {
    clearTimeout(renewal);
    renewal = setTimeout(async () => {
      if (!endsSoon()) return scheduleRenewal(); // A token may last longer than a timer.
      try {
        const token = await renew();
        // On the socket itself: over HTTP there is nothing to renew.
        if (token) await send(RENEW, { token: token.token });
        if (token) scheduleRenewal();
      } catch {
        socket.terminate(); // Reconnecting gets a token again.
      }
    }, Math.min(LONGEST_TIMER_MS, Math.max(1000, tokens.current().expiresAt - Date.now() - RENEW_BEFORE_MS)));
  };

  const alive = new AbortController(); // Its signal removes the listeners.
  const { signal } = alive;
  addEventListener("online", () => dispatch({ type: "networkBack" }), { signal });
  addEventListener("offline", () => socket.terminate(), { signal });
  document.addEventListener("visibilitychange", () => dispatch({ type: "networkBack" }), { signal });
  watchUse(() => dispatch({ type: "used", now: Date.now() }), () => dispatch({ type: "hidden", now: Date.now() }), signal);

  const auth: Exchange = authExchange(async (utils) => ({
    addAuthToOperation: (operation) => utils.appendHeaders(operation, { authorization: `Bearer ${tokens.current().token}` }),
    willAuthError: endsSoon,
    didAuthError: (error) => error.graphQLErrors.some((each) => each.extensions.code === "UNAUTHENTICATED"),
    refreshAuth: async () => void (await renew()),
  }));

  const order = orderAnswers();
  const client = new Client({
    url: "/graphql",
    preferGetMethod: false,
    fetchOptions: () => ({ signal: AbortSignal.timeout(20_000) }),
    exchanges: [
      cache(tokens.current().userId, order),
      order.exchange,
      auth,
      subscriptionExchange({
        isSubscriptionOperation: ({ kind, context }) => kind === "subscription" || context.onSocket === true,
        forwardSubscription: forwardedTo(socket, (stream, reset) => dispatch({ type: "caughtUp", stream, reset })),
      }),
      fetchExchange,
    ],
  });

  dispatch({ type: "start" });
  return {
    client,
    state: () => state,
    onChange: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    ready: (streams) => dispatch({ type: "ready", streams }),
    close: () => {
      alive.abort();
      [renewal, pongDue, opening, checking].forEach(clearTimeout);
      listeners.clear();
      dispatch({ type: "signedOut" });
      void Promise.resolve(socket.dispose()).catch(() => {}); // It rejects if the socket that is being opened fails.
    },
  };
}
