/**
 * The client's state machine. `step` is pure: it takes a state and an event, and returns the next state and what to do.
 * `connection.ts` turns what happens to the socket and to the page into events, and executes the actions.
 *
 * Guarantees: at most one attempt to connect is planned. A connection counts as a success only when everything missed has arrived, so
 * a server that accepts connections and ends them at once gets attempts less and less often. After a final close code nothing is
 * repeated.
 */
import { backoff } from "./backoff";

export type ConnectionState =
  /** There is no connection, and no attempt: signed out, device removed, or refused for good. */
  | "Disconnected"
  /** The socket is being opened for the first time, or waits for its next attempt. */
  | "Connecting"
  /** IDENTIFY: connection_init was sent. The client waits for its acknowledgement and for the answer to `ready`. */
  | "Authenticating"
  /** READY: the first screen is loaded; the subscriptions are catching up. */
  | "Ready"
  /** Everything missed has arrived, and everything new arrives as it happens. */
  | "Active"
  /** The connection was lost. The subscriptions continue from their cursor and revs on the next connection (RESUME). */
  | "Resuming";

export type UserState =
  /** The device was used within the last five minutes. */
  | "Online"
  /** The page is visible, but was not used for five minutes. */
  | "Idle"
  /** The page is hidden, or the screen is locked. */
  | "Away";

export interface State {
  connection: ConnectionState;
  /** True while the server has accepted the socket. */
  connected: boolean;
  /** Connections in a row that were lost before they were Active. */
  failures: number;
  /** The subscriptions that follow the first screen; empty until it is loaded. */
  streams: readonly string[];
  /** The subscriptions that have not caught up on this connection. */
  behind: readonly string[];
  user: UserState;
  /** When the device was last used, in ms. */
  usedAt: number;
  /** The last report of use that the server has, and its time in ms. Connecting counts as a report. */
  reported: { active: boolean; at: number };
}

export type Event =
  /** The socket begins to open. `ready` does not wait for it. */
  | { type: "start" }
  | { type: "opened" }
  | { type: "acknowledged"; now: number }
  /** `ready` has answered. streams: the subscriptions that follow it. */
  | { type: "ready"; streams: readonly string[] }
  /** reset: too much was missed; what is displayed has gaps. */
  | { type: "caughtUp"; stream: string; reset: boolean }
  /** The client no longer follows it. */
  | { type: "streamEnded"; stream: string }
  /** chance: a random number from 0 to 1, so that not all clients reconnect at the same time. */
  | { type: "closed"; code: number; reason: string; chance: number }
  /** The network is back, or the page is visible again. */
  | { type: "networkBack" }
  | { type: "signedOut" }
  /** The device was used: a key, a click, a movement. Also when the page becomes visible. */
  | { type: "used"; now: number }
  | { type: "hidden"; now: number }
  /** The time of a `checkUse` was reached. */
  | { type: "unused"; now: number };

export type Action =
  /** Open the socket again after this time. It replaces an earlier `open`. */
  | { do: "open"; afterMs: number }
  /** Get another token before the socket is opened. */
  | { do: "renewToken" }
  /** Send the query `ready`. */
  | { do: "loadScreen" }
  /** Forget everything and start again after this time. */
  | { do: "startOver"; afterMs: number }
  | { do: "signOut"; why: string }
  /** Send `reportActivity`. */
  | { do: "report"; active: boolean }
  /** Send `unused` at this time. It replaces an earlier `checkUse`. */
  | { do: "checkUse"; at: number };

export const IDLE_AFTER_MS = 300_000;
/** The server counts a report at most once in 15 s, and considers a device idle after five minutes without one. */
const REPORT_EVERY_MS = 60_000;
const START_OVER_AFTER_MS = 5_000;

const UNAUTHORIZED = 4401;
const FORBIDDEN = 4403;
/** After these codes the same client would be refused again (close_codes.py), and graphql-ws gives up. */
const isFinal = (code: number) =>
  [4400, 4401, 4406, 4409, 4429, 4500].includes(code) || (code >= 1000 && code < 2000 && ![1000, 1001, 1005, 1006, 1012, 1013, 1014].includes(code));

export const initialState = (now: number): State => ({
  connection: "Disconnected",
  connected: false,
  failures: 0,
  streams: [],
  behind: [],
  user: "Online",
  usedAt: now,
  reported: { active: true, at: now },
});

export type Step = readonly [State, readonly Action[]];

export function step(state: State, event: Event): Step {
  switch (event.type) {
    case "start":
      return [{ ...state, connection: "Connecting" }, [{ do: "loadScreen" }]];
    case "opened":
      return [state.connection === "Connecting" ? { ...state, connection: "Authenticating" } : state, []];
    case "acknowledged":
      return acknowledged(state, event.now);
    case "ready":
      // Later answers only refresh the screen.
      if (state.streams.length || state.connection === "Disconnected") return [state, []];
      return [{ ...state, connection: state.connected ? "Ready" : state.connection, streams: event.streams, behind: event.streams }, []];
    case "caughtUp": {
      if (!state.connected || !state.streams.length) return [state, []];
      const next = { ...state, behind: state.behind.filter((stream) => stream !== event.stream) };
      return event.reset ? [caughtUp({ ...next, connection: "Ready" }), [{ do: "loadScreen" }]] : [caughtUp(next), []];
    }
    case "streamEnded": {
      const without = (streams: readonly string[]) => streams.filter((stream) => stream !== event.stream);
      const next = { ...state, streams: without(state.streams), behind: without(state.behind) };
      return [state.connected && state.behind.length ? caughtUp(next) : next, []];
    }
    case "closed":
      return closed(state, event);
    case "networkBack":
      return isWaiting(state) ? [state, [{ do: "open", afterMs: 0 }]] : [state, []];
    case "signedOut":
      return [{ ...state, connection: "Disconnected", connected: false }, []];
    case "used": {
      const changed = state.user !== "Online";
      const next: State = { ...state, user: "Online", usedAt: event.now };
      const [reported, report] = reporting(next, true, event.now);
      return [reported, [...report, ...(changed || report.length ? ([{ do: "checkUse", at: event.now + IDLE_AFTER_MS }] as const) : [])]];
    }
    case "hidden":
      return [{ ...state, user: "Away" }, [{ do: "checkUse", at: state.usedAt + IDLE_AFTER_MS }]];
    case "unused": {
      const idleAt = state.usedAt + IDLE_AFTER_MS;
      if (event.now < idleAt) return [state, [{ do: "checkUse", at: idleAt }]];
      return reporting({ ...state, user: state.user === "Online" ? "Idle" : state.user }, false, event.now);
    }
  }
}

function acknowledged(state: State, now: number): Step {
  if (state.connection === "Disconnected") return [state, []];
  // The server considers a device that connects as used.
  const next: State = { ...state, connected: true, behind: state.streams, reported: { active: true, at: now } };
  const unused = now >= state.usedAt + IDLE_AFTER_MS;
  const [reported, report] = unused ? reporting(next, false, now) : ([next, []] as Step);
  const use: Action = { do: "checkUse", at: Math.max(now, state.usedAt + IDLE_AFTER_MS) };
  const actions: Action[] = unused ? [...report] : [use];
  if (state.connection === "Resuming") return [reported, actions];
  return [{ ...reported, connection: state.streams.length ? "Ready" : "Authenticating" }, actions];
}

function closed(state: State, { code, reason, chance }: Event & { type: "closed" }): Step {
  if (state.connection === "Disconnected") return [state, []];
  const failures = state.failures + 1;
  const lost: State = { ...state, connected: false, behind: state.streams, failures };
  if (code === UNAUTHORIZED) return [{ ...lost, connection: "Disconnected" }, [{ do: "signOut", why: "This device was removed." }]];
  if (isFinal(code)) return [{ ...lost, connection: "Disconnected" }, [{ do: "startOver", afterMs: START_OVER_AFTER_MS }]];
  // A server that restarts gives each client its own time to reconnect.
  const requested = Number(/retry in (\d+) ms/.exec(reason)?.[1] ?? 0);
  const open: Action = { do: "open", afterMs: Math.max(requested, backoff(state.failures, chance)) };
  const next: State = { ...lost, connection: state.streams.length ? "Resuming" : "Connecting" };
  return [next, code === FORBIDDEN ? [{ do: "renewToken" }, open] : [open]];
}

const isWaiting = (state: State) => !state.connected && (state.connection === "Connecting" || state.connection === "Resuming");

/** Active when no stream is behind. */
const caughtUp = (state: State): State => (state.behind.length ? state : { ...state, connection: "Active", failures: 0 });

/** Reports a change at once, and use at most once a minute. Without a connection it reports nothing. */
function reporting(state: State, active: boolean, now: number): Step {
  const due = active !== state.reported.active || (active && now - state.reported.at >= REPORT_EVERY_MS);
  return state.connected && due ? [{ ...state, reported: { active, at: now } }, [{ do: "report", active }]] : [state, []];
}
