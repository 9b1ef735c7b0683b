/**
 * The connection: queries and mutations over HTTP, subscriptions over one WebSocket. It executes what machine.ts decides.
 *
 * Guarantees: no request is sent with a token that is about to expire. The socket outlives its token (renewAuth) and the network:
 * it reconnects automatically, and each subscription continues after its last event.
 */
import { createClient, type Client } from "graphql-ws";

import { stoppedError } from "../errors";
import { RenewAuth, ReportActivity } from "../gql";
import { ConfabError, type Api, type ClientOptions, type Operation, type RequestOptions, type Sink, type Token } from "../types";
import { whenVisible } from "../live/activity";
import { backoff } from "./backoff";
import { asError, failure, REQUEST_TIMEOUT_MS, noAnswer, post } from "./http";
import { initialState, step, type Action, type Event, type State } from "./machine";

export interface Connection {
  api: Api;
  /** Call it once. The handlers may be called from then on. */
  start(): void;
  state(): State;
  ready(streams: readonly string[]): void;
  caughtUp(stream: string, reset: boolean): void;
  streamEnded(stream: string): void;
  /** The device was used just now, or it is hidden. */
  reportUse(): void;
  reportHidden(): void;
  close(): void;
}

export interface Handlers {
  /** Load the first screen, then call `ready`. */
  loadScreen(): void;
  changed(): void;
  signedOut(why: string): void;
}

/** Or a quarter of the time that a token lasts, if that is shorter. */
const RENEW_BEFORE_MS = 60_000;
const PING_EVERY_MS = 10_000;
const PONG_WITHIN_MS = 5_000;
/** The longest delay of a timer: with a longer one, it fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export function connect({ url, tokens, device, webSocket }: ClientOptions, handlers: Handlers): Connection {
  let state = initialState(Date.now());
  let closed = false;
  let clockAhead = 0;
  const timers: Record<string, ReturnType<typeof setTimeout> | undefined> = {};
  const after = (name: string, ms: number, run: () => void) => {
    clearTimeout(timers[name]);
    if (!closed) timers[name] = setTimeout(run, Math.min(ms, MAX_TIMER_MS));
  };
  const dispatch = (event: Event) => {
    const before = state;
    const [next, actions] = step(state, event);
    state = next;
    actions.forEach(execute);
    if (next.connection !== before.connection || next.connected !== before.connected || next.failures !== before.failures) handlers.changed();
  };

  let token = tokens.current();
  const { userId } = token;
  let lastGiven = token.token;
  let expiresAt = 0;
  let renewBefore = 0;
  const take = (given: Token, isNew = false) => {
    token = given;
    // If a new token has expired, this device's clock is wrong: the token is used until the server refuses it.
    expiresAt = isNew && given.expiresAt <= Date.now() ? Infinity : given.expiresAt;
    renewBefore = Math.min(RENEW_BEFORE_MS, Math.max(0, expiresAt - Date.now()) / 4);
  };
  take(token);
  /** Throws if the client was stopped. Stops it if somebody else has signed in on this page. */
  const present = () => {
    const given = tokens.current();
    if (!closed && given.userId !== userId) signOut("Somebody else has signed in.");
    if (closed) throw stoppedError();
    // The source may also get tokens on its own.
    if (given.token !== lastGiven) take(given);
    lastGiven = given.token;
    return token;
  };
  const signOut = (why: string) => {
    dispatch({ type: "signedOut" });
    handlers.signedOut(why);
  };
  const endsSoon = () => (present(), expiresAt - Date.now() < renewBefore);
  let renewing: Promise<void> | undefined;
  const renew = () =>
    (renewing ??= (async () => {
      try {
        const renewed = await tokens.renew();
        if (closed) throw stoppedError();
        if (renewed && renewed.userId === userId) {
          lastGiven = tokens.current().token;
          return take(renewed, true);
        }
      } catch (error) {
        if (error instanceof ConfabError) throw error;
        throw new ConfabError(`No token: ${String(error)}`, "NETWORK", true);
      } finally {
        renewing = undefined;
      }
      signOut("You have been signed out.");
      throw new ConfabError("You have been signed out.", "UNAUTHENTICATED", false);
    })());

  let refused = false;
  const execute = (action: Action): void => {
    if (action.do === "open") after("open", action.afterMs, () => ((mayOpen = true), waiting()));
    else if (action.do === "renewToken") refused = true;
    else if (action.do === "loadScreen") queueMicrotask(handlers.loadScreen);
    else if (action.do === "startOver") after("open", action.afterMs, startOver);
    else if (action.do === "signOut") handlers.signedOut(action.why);
    else if (action.do === "report") overSocket(ReportActivity, { active: action.active }).catch(() => {}); // Connecting counts as use.
    else if (action.do === "checkUse") after("use", Math.max(0, action.at - Date.now()), () => dispatch({ type: "unused", now: Date.now() }));
  };

  /** graphql-ws waits for this before it opens the socket again. */
  let mayOpen = false;
  let waiting = () => {};
  let accepted: unknown;
  const open = (): Client => {
    const socket: Client = createClient({
      url: url.replace(/^http/, "ws"),
      webSocketImpl: webSocket,
      connectionParams: async () => {
        // If this fails, the old token is refused, and everything is tried again a little later.
        if (refused || endsSoon()) await renew().catch(() => {});
        return { authorization: `Bearer ${present().token}`, ...device };
      },
      lazy: false,
      retryAttempts: Infinity,
      shouldRetry: () => state.connection !== "Disconnected",
      retryWait: () => new Promise((resolve) => ((waiting = () => mayOpen && resolve()), waiting())),
      keepAlive: PING_EVERY_MS,
      on: {
        connecting: () => (mayOpen = false),
        opened: () => dispatch({ type: "opened" }),
        connected: (now) => {
          accepted = now;
          refused = false;
          dispatch({ type: "acknowledged", now: Date.now() });
          scheduleRenewal();
        },
        closed: (event) => {
          const { code, reason = "", target } = event as { code: number; reason?: string; target?: unknown };
          // A socket that failed may report its end only after the next one was accepted.
          if (accepted && target && target !== accepted) return;
          accepted = undefined;
          requests.forEach((reject) => reject(asError(event)));
          clearTimeout(timers.renewal);
          clearTimeout(timers.pong);
          if (!closed) dispatch({ type: "closed", code, reason: String(reason), chance: Math.random() });
        },
        // A socket that died while the computer slept looks alive until it is used.
        ping: (received) => void (received || after("pong", PONG_WITHIN_MS, () => socket.terminate())),
        pong: () => clearTimeout(timers.pong),
      },
      onNonLazyError: () => {}, // The handler of `closed` has handled it.
    });
    return socket;
  };

  const scheduleRenewal = () =>
    after("renewal", Math.max(1000, expiresAt - Date.now() - renewBefore), async () => {
      try {
        if (!endsSoon()) return scheduleRenewal(); // A token may last longer than a timer.
        await renew();
        await overSocket(RenewAuth, { token: present().token });
        scheduleRenewal();
      } catch {
        socket.terminate(); // The reconnect gets another token.
      }
    });

  /** Requests over the socket. graphql-ws would repeat them on the next one, so they are given up with their socket. */
  const requests = new Set<(error: ConfabError) => void>();
  const overSocket = async <D, V>(operation: Operation<D, V>, variables: V, signal?: AbortSignal): Promise<D> => {
    signal?.throwIfAborted();
    let giveUp = (_: unknown) => {};
    let forget = () => {};
    const timer = setTimeout(() => giveUp(noAnswer()), REQUEST_TIMEOUT_MS);
    const abort = () => giveUp(signal!.reason);
    signal?.addEventListener("abort", abort);
    try {
      return await new Promise<D>((resolve, reject) => {
        giveUp = reject;
        requests.add(reject);
        forget = socket.subscribe<D>({ query: operation.text, variables: variables as Record<string, unknown> }, {
          next: ({ data, errors }) => (errors ? reject(failure(errors)) : resolve(data as D)),
          error: (error) => reject(asError(error)),
          complete: () => reject(noAnswer()),
        });
      });
    } finally {
      requests.delete(giveUp);
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      forget();
    }
  };

  async function request<D, V>(operation: Operation<D, V>, variables: V, options: RequestOptions = {}): Promise<D> {
    if (closed) throw stoppedError();
    if (options.overWebSocket) return overSocket(operation, variables, options.signal);
    if (endsSoon()) await renew();
    const send = async () => {
      const { data, date, tookMs } = await post<D>(url, present().token, operation.text, variables, options.signal);
      if (date) clockAhead = date + 500 + tookMs / 2 - Date.now(); // The header is rounded down to seconds.
      return data;
    };
    return send().catch(async (error: unknown) => {
      if (!(error instanceof ConfabError) || error.code !== "UNAUTHENTICATED") throw error;
      await renew();
      return send();
    });
  }

  const running = new Set<() => void>();
  function subscribe<D, V extends object>({ text }: Operation<D, V>, variables: V | (() => V), sink: Sink<D>): () => void {
    if (closed) return () => {};
    let since: string | undefined;
    const payload = {
      query: text,
      // graphql-ws reads the variables again after each reconnect.
      get variables() {
        return (typeof variables === "function" ? variables() : { ...variables, ...(since && { since }) }) as Record<string, unknown>;
      },
    };
    let tries = 0;
    let ended = false;
    let stop = () => {};
    const end = () => {
      ended = true;
      running.delete(begin);
      stop();
    };
    const begin = () => {
      stop(); // It may wait to begin again.
      stop = socket.subscribe<D>(payload, {
        next: ({ data }) => {
          if (!data || ended) return;
          tries = 0;
          try {
            sink.next(data);
          } catch (error) {
            console.error(error); // Otherwise graphql-ws would close the connection.
          }
          const event = Object.values(data as object)[0] as { cursor?: string } | null;
          since = event?.cursor ?? since;
        },
        error: (error) => {
          if (ended || !Array.isArray(error)) return; // The connection has ended for good: startOver begins again.
          const refusal = failure(error);
          if (refusal.isRetryable) {
            const timer = setTimeout(begin, refusal.retryAfterMs + backoff(tries++));
            stop = () => clearTimeout(timer);
          } else {
            end();
            sink.error?.(refusal);
          }
        },
        complete: () => {
          if (ended || closed) return;
          end();
          sink.complete?.();
        },
      });
    };
    running.add(begin);
    begin();
    return end;
  }

  /** Rejects if the socket that is being opened fails. */
  const dispose = () => void Promise.resolve(socket.dispose()).catch(() => {});
  const startOver = () => {
    dispose();
    accepted = undefined;
    socket = open();
    dispatch({ type: "start" });
    running.forEach((begin) => begin());
  };

  // graphql-ws opens the socket a moment later, so `start` comes first.
  let socket = open();
  const online = () => dispatch({ type: "networkBack" });
  const offline = () => socket.terminate();
  const page = typeof globalThis.addEventListener === "function" ? globalThis : undefined;
  page?.addEventListener("online", online);
  page?.addEventListener("offline", offline);
  // A laptop that wakes does not wait for the next attempt.
  const stopWatching = whenVisible(online);
  return {
    start: () => dispatch({ type: "start" }),
    api: { request, subscribe, now: () => Date.now() + clockAhead },
    state: () => state,
    ready: (streams) => dispatch({ type: "ready", streams }),
    caughtUp: (stream, reset) => dispatch({ type: "caughtUp", stream, reset }),
    streamEnded: (stream) => dispatch({ type: "streamEnded", stream }),
    reportUse: () => dispatch({ type: "used", now: Date.now() }),
    reportHidden: () => dispatch({ type: "hidden", now: Date.now() }),
    close: () => {
      closed = true;
      page?.removeEventListener("online", online);
      page?.removeEventListener("offline", offline);
      stopWatching();
      Object.values(timers).forEach(clearTimeout);
      running.clear();
      requests.forEach((reject) => reject(stoppedError()));
      dispatch({ type: "signedOut" });
      dispose();
    },
  };
}
