import { createClient } from "graphql-ws";
import { waitBefore } from "./errors.mjs";

const LONGEST_TIMER = 2 ** 31 - 1; // setTimeout fires at once for longer times
const RENEW = "mutation Renew($token: String!) { renewAuth(token: $token) }";
const expiryOf = (jwt) => 1000 * JSON.parse(atob(jwt.split(".")[1].replace(/-/g, "+").replace(/_/g, "/"))).exp;

// The WebSocket of a signed-in user. It reconnects with a new token, and renews the token before it expires.
export function openSocket({ url, token, ...options }) {
  let renewal;
  let asked = 0;
  let shown;
  let refused;
  const renewBefore = (expiry) => {
    clearTimeout(renewal);
    renewal = setTimeout(renew, Math.min(LONGEST_TIMER, Math.max(1000, 0.5 * (expiry - Date.now()))));
  };
  const renew = async () => {
    const jwt = await token().catch(() => null);
    // If this fails, nothing is lost: the server closes the socket when the token expires, and connectionParams gets a new one.
    if (jwt) socket.subscribe({ query: RENEW, variables: { token: jwt } }, {
      next: ({ data }) => { if (data) renewBefore(Date.parse(data.renewAuth)); }, error() {}, complete() {},
    });
  };
  const socket = createClient({
    url: url.replace(/^http/, "ws"),
    // This must not fail, or graphql-ws gives up. Without a token the server refuses the connection, and graphql-ws reconnects.
    connectionParams: async () => {
      shown = await token(refused).catch(() => null);
      if (shown) renewBefore(expiryOf(shown));
      return { Authorization: `Bearer ${shown}` };
    },
    // By default graphql-ws gives up after five attempts, and at once if it cannot connect.
    retryAttempts: Infinity,
    shouldRetry: () => true,
    // A restarting server gives each client its own time to reconnect, so that they do not all come at once.
    retryWait: (retries) => new Promise((resolve) => {
      setTimeout(resolve, asked || Math.random() * Math.min(500 * 2 ** retries, 15_000));
    }),
    ...options,
  });
  socket.on("closed", ({ code, reason = "" }) => {
    clearTimeout(renewal);
    if (code === 4403 && shown) refused = shown; // it may be revoked: do not send it again
    asked = Number(/retry in (\d+) ms/.exec(reason)?.[1] ?? 0);
  });
  return socket;
}

// The same socket for Apollo, urql and Relay, which copy a subscription's variables: after a reconnect, a subscription with a
// variable `since` resumes after the last event it received. `since: null` starts with live events.
export function resuming(socket) {
  return {
    ...socket,
    subscribe({ variables, ...payload }, sink) {
      let since = variables?.since;
      let stop;
      let attempt = 0;
      const begin = () => socket.subscribe(
        // A getter, because graphql-ws serialises the variables again for each connection.
        { ...payload, variables: { ...variables, get since() { return since; } } },
        {
          next(result) {
            sink.next(result);
            attempt = 0;
            since = Object.values(result.data ?? {})[0]?.cursor ?? since;
          },
          error(error) {
            const wait = Array.isArray(error) ? waitBefore(error, attempt += 1) : null;
            if (wait === null) return sink.error(error);
            const timer = setTimeout(() => { stop = begin(); }, wait);
            stop = () => clearTimeout(timer);
          },
          complete: () => sink.complete(),
        },
      );
      stop = begin();
      return () => stop();
    },
  };
}
