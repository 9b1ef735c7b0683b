import { createClient } from "graphql-ws";
import { waitBefore } from "./errors.mjs";

const LONGEST_TIMER = 2 ** 31 - 1; // beyond it setTimeout fires at once
const RENEW = "mutation Renew($token: String!) { renewAuth(token: $token) }";
const expiryOf = (jwt) => 1000 * JSON.parse(atob(jwt.split(".")[1].replace(/-/g, "+").replace(/_/g, "/"))).exp;

// The one WebSocket of a signed-in user. It comes back after every break with a new token, and renews the token before it ends.
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
    // Where that fails nothing is lost: the server closes at the token's end, and connectionParams asks for another one.
    if (jwt) socket.subscribe({ query: RENEW, variables: { token: jwt } }, {
      next: ({ data }) => { if (data) renewBefore(Date.parse(data.renewAuth)); }, error() {}, complete() {},
    });
  };
  const socket = createClient({
    url: url.replace(/^http/, "ws"),
    // Must not fail: graphql-ws would give up. No token now: the server refuses this one, after which it comes back.
    connectionParams: async () => {
      shown = await token(refused).catch(() => null);
      if (shown) renewBefore(expiryOf(shown));
      return { Authorization: `Bearer ${shown}` };
    },
    // As it comes, graphql-ws gives up after five tries, and at once where it can't connect.
    retryAttempts: Infinity,
    shouldRetry: () => true,
    // A server that restarts tells each client when to come back, so that they don't all come at once.
    retryWait: (retries) => new Promise((resolve) => {
      setTimeout(resolve, asked || Math.random() * Math.min(500 * 2 ** retries, 15_000));
    }),
    ...options,
  });
  socket.on("closed", ({ code, reason = "" }) => {
    clearTimeout(renewal);
    if (code === 4403 && shown) refused = shown; // revoked, it may be: not to be shown again
    asked = Number(/retry in (\d+) ms/.exec(reason)?.[1] ?? 0);
  });
  return socket;
}

// The same socket for Apollo, urql and Relay, which copy a subscription's variables: one that has a variable `since` goes on after
// the last event it was shown whenever the socket has come back. `since: null` begins with what is live.
export function resuming(socket) {
  return {
    ...socket,
    subscribe({ variables, ...payload }, sink) {
      let since = variables?.since;
      let stop;
      let attempt = 0;
      const begin = () => socket.subscribe(
        // A getter: graphql-ws writes the variables anew for each connection.
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
