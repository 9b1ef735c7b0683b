import { createClient } from "graphql-ws";
import { thisDevice } from "./device.mjs";
import { backOff, waitBefore } from "./errors.mjs";

const LONGEST_WAIT = 15_000;
const STEADY = 10_000; // a connection or subscription of this length counts as stable
const LONGEST_TIMER = 2 ** 31 - 1; // setTimeout fires at once for longer times
const RENEW = "mutation Renew($token: String!) { renewAuth(token: $token) }";
const expiryOf = (jwt) => 1000 * JSON.parse(atob(jwt.split(".")[1].replace(/-/g, "+").replace(/_/g, "/"))).exp;

// The WebSocket of a signed-in user. It reconnects with a new token, and renews the token before it expires. options: those of
// graphql-ws. Node.js 20 and older need `webSocketImpl`: the default export of npm `ws`.
export function openSocket({ url, token, device = thisDevice(), ...options }) {
  let renewal;
  let asked = 0;
  let shown;
  let refused;
  let failures = 0;
  let connectedAt = Infinity;
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
      return { Authorization: `Bearer ${shown}`, ...device };
    },
    // By default graphql-ws gives up after five attempts, and at once if it cannot connect.
    retryAttempts: Infinity,
    shouldRetry: () => true,
    // Without it, each end of the last subscription closes the socket at once, and the next one opens another.
    lazyCloseTimeout: 5_000,
    // A restarting server gives each client its own time to reconnect, so that they do not all come at once. By default graphql-ws
    // forgets its failures at each connection, also if the server ends that at once.
    retryWait: () => new Promise((resolve) => {
      setTimeout(resolve, Math.max(asked, backOff(failures += 1, LONGEST_WAIT)));
    }),
    ...options,
  });
  socket.on("connected", () => { connectedAt = Date.now(); });
  socket.on("closed", ({ code, reason = "" }) => {
    clearTimeout(renewal);
    if (Date.now() - connectedAt > STEADY) failures = 0;
    connectedAt = Infinity;
    if (code === 4403 && shown) refused = shown; // it may be revoked: do not send it again
    asked = Number(/retry in (\d+) ms/.exec(reason)?.[1] ?? 0);
  });
  return socket;
}

// After an exception graphql-ws would close the connection, reconnect, and receive the same event again.
function safely(handle) {
  try {
    handle();
  } catch (error) {
    console.error(error);
  }
}

// graphql-ws ends a subscription with a list of GraphQL errors, a CloseEvent, or an Error.
function asError(failure) {
  if (failure instanceof Error) return failure;
  if (Array.isArray(failure)) return Object.assign(new Error(failure[0].message), { errors: failure });
  const { code, reason } = failure;
  return Object.assign(new Error(`The connection was closed: ${code} ${reason}`), { code, reason });
}

// The same socket for Apollo, urql and Relay, which copy a subscription's variables: after a reconnect, a subscription with a
// variable `since` resumes after the last event it received. `since: null` starts with live events.
export function resuming(socket) {
  return {
    ...socket,
    subscribe({ variables, ...payload }, sink) {
      let since = variables?.since;
      let stop;
      let failures = 0;
      let begunAt;
      const subscribe = () => socket.subscribe(
        // A getter, because graphql-ws serialises the variables again for each connection.
        { ...payload, variables: { ...variables, get since() { return since; } } },
        {
          next(result) {
            since = Object.values(result.data ?? {})[0]?.cursor ?? since;
            safely(() => sink.next(result));
          },
          error(error) {
            if (Date.now() - begunAt > STEADY) failures = 0;
            const wait = Array.isArray(error) ? waitBefore(error, failures += 1, LONGEST_WAIT) : null;
            if (wait === null) return safely(() => sink.error(asError(error)));
            const timer = setTimeout(() => { stop = begin(); }, wait);
            stop = () => clearTimeout(timer);
          },
          complete: () => sink.complete(),
        },
      );
      const begin = () => {
        begunAt = Date.now();
        return subscribe();
      };
      stop = begin();
      return () => stop();
    },
  };
}
