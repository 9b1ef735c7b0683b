/**
 * The connection: queries and mutations over HTTP, subscriptions over one WebSocket.
 *
 * Guarantees: no request is sent with a token that is about to expire. The socket outlives its token (renewAuth) and the network: it
 * reconnects automatically, and each subscription resumes after its last event, so its reader misses and repeats nothing.
 */
import { Client, fetchExchange, subscriptionExchange, type Exchange } from "@urql/core";
import { authExchange } from "@urql/exchange-auth";
import type { GraphQLError } from "graphql";
import { createClient } from "graphql-ws";

import { backoff } from "./backoff";
import { cache } from "./cache";

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

export type Link = "connecting" | "online" | "offline";

export interface Connection {
  client: Client;
  link(): Link;
  onLink(listener: () => void): () => void;
  close(): void;
}

const RENEW = "mutation RenewAuth($token: String!) { renewAuth(token: $token) }";
const RENEW_BEFORE_MS = 60_000;
const PING_EVERY_MS = 10_000;
const PONG_WITHIN_MS = 5_000;
const TOKEN_REFUSED = 4403;
/** Timers of browsers fire at once for longer times. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** signedOut: no token can be had any more. broken: the socket was closed with a final code; reconnect later. */
export function connect(tokens: Tokens, signedOut: () => void, broken: () => void): Connection {
  const endsSoon = () => tokens.current().expiresAt - Date.now() < RENEW_BEFORE_MS;
  const renew = async () => {
    const token = await tokens.renew();
    if (!token) signedOut();
    return token;
  };

  // --- the state of the connection, for banners and for the outbox
  let link: Link = "connecting";
  const listeners = new Set<() => void>();
  const setLink = (now: Link) => {
    if (now === link) return;
    link = now;
    listeners.forEach((tell) => tell());
  };

  // --- the socket
  let wake = () => {};
  /** A token may be refused long before it expires: if it was revoked, or if the server's keys have changed. */
  let refused = false;
  let pongDue: ReturnType<typeof setTimeout> | undefined;
  let renewal: ReturnType<typeof setTimeout> | undefined;
  const socket = createClient({
    url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/graphql`,
    connectionParams: async () => {
      // If this fails, the old token is refused, and everything is tried again a little later.
      if (refused || endsSoon()) await renew().catch(() => {});
      return { authorization: `Bearer ${tokens.current().token}` };
    },
    lazy: false,
    retryAttempts: Infinity,
    shouldRetry: () => true,
    // At once when the network is back.
    retryWait: (tries) =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, backoff(tries));
        wake = () => (clearTimeout(timer), resolve());
      }),
    keepAlive: PING_EVERY_MS,
    on: {
      connected: () => {
        refused = false;
        setLink("online");
        scheduleRenewal();
      },
      closed: (event) => {
        refused ||= (event as CloseEvent).code === TOKEN_REFUSED;
        clearTimeout(renewal);
        clearTimeout(pongDue);
        setLink("offline");
      },
      // A socket that died while the computer slept looks alive until it is used.
      ping: (received) => {
        if (!received) pongDue = setTimeout(() => socket.terminate(), PONG_WITHIN_MS);
      },
      pong: () => clearTimeout(pongDue),
    },
    onNonLazyError: broken,
  });

  const scheduleRenewal = () => {
    clearTimeout(renewal);
    renewal = setTimeout(async () => {
      if (!endsSoon()) return scheduleRenewal(); // A token may last longer than a timer.
      try {
        const token = await renew();
        // On the socket itself: over HTTP there is nothing to renew.
        if (token) for await (const _ of socket.iterate({ query: RENEW, variables: { token: token.token } }));
        if (token) scheduleRenewal();
      } catch {
        socket.terminate(); // Reconnecting gets a token again.
      }
    }, Math.min(LONGEST_TIMER_MS, Math.max(1000, tokens.current().expiresAt - Date.now() - RENEW_BEFORE_MS)));
  };

  const open = new AbortController(); // Its signal removes the listeners.
  addEventListener("online", () => wake(), open);
  addEventListener("offline", () => socket.terminate(), open);
  document.addEventListener("visibilitychange", () => wake(), open);

  const auth: Exchange = authExchange(async (utils) => ({
    addAuthToOperation: (operation) => utils.appendHeaders(operation, { authorization: `Bearer ${tokens.current().token}` }),
    willAuthError: endsSoon,
    didAuthError: (error) => error.graphQLErrors.some((each) => each.extensions.code === "UNAUTHENTICATED"),
    refreshAuth: async () => void (await renew()),
  }));

  const client = new Client({
    url: "/graphql",
    preferGetMethod: false,
    fetchOptions: () => ({ signal: AbortSignal.timeout(20_000) }),
    exchanges: [
      cache(tokens.current().userId),
      auth,
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: ({ query, variables }) => ({
          subscribe: (sink) => {
            // graphql-ws sends this payload again after each reconnect: `since` is then the last received event.
            const payload = { query: query!, variables: { ...variables } as Record<string, unknown> };
            let stop = () => {};
            let tries = 0;
            const begin = () => {
              stop = socket.subscribe<Record<string, { cursor?: string }>>(payload, {
                ...sink,
                next: (result) => {
                  tries = 0;
                  const cursor = Object.values(result.data ?? {})[0]?.cursor;
                  if (cursor) payload.variables.since = cursor;
                  sink.next(result as Parameters<typeof sink.next>[0]);
                },
                // If the server cannot start it now (a rate limit, a database that is away), try again from the same position.
                error: (error) => {
                  const refusals = Array.isArray(error) ? (error as GraphQLError[]).map((each) => each.extensions ?? {}) : [];
                  if (!refusals.length || refusals.some((each) => each.retryable !== true)) return sink.error(error);
                  const asked = Math.max(...refusals.map((each) => Number(each.retryAfterMs ?? 0)));
                  const timer = setTimeout(begin, asked + backoff(tries++));
                  stop = () => clearTimeout(timer);
                },
              });
            };
            begin();
            return { unsubscribe: () => stop() };
          },
        }),
      }),
    ],
  });

  return {
    client,
    link: () => link,
    onLink: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    close: () => {
      open.abort();
      clearTimeout(renewal);
      listeners.clear();
      void socket.dispose();
    },
  };
}
