/**
 * Answers to queries about data that no event keeps up to date, such as members, devices and bans.
 *
 * Guarantees: a query is sent when something that displays it appears, and the last answer stays displayed meanwhile. A query without
 * an answer is sent again when there is a connection. An answer never replaces that of a later request.
 */
import type { Api, ConfabClient, ConfabError, Operation, View } from "@confab/client";

export interface Answer<Data> {
  readonly data?: Data;
  /** Why the last request failed. */
  readonly error?: ConfabError;
  readonly isLoading: boolean;
}

export interface Answers {
  of<Data, Variables>(operation: Operation<Data, Variables>, variables: Variables): View<Answer<Data>>;
  /** Replaces an answer by what a mutation returned. */
  put<Data, Variables>(operation: Operation<Data, Variables>, variables: Variables, data: Data): void;
  /** Sends the displayed ones of these queries again, with any variables. */
  refresh(...operations: readonly { name: string }[]): void;
  stop(): void;
}

const RETRY_MS = 1_000;
const MAX_ENTRIES = 200;

interface Entry {
  readonly name: string;
  readonly view: View<Answer<unknown>>;
  readonly isDisplayed: () => boolean;
  readonly load: () => void;
  readonly put: (data: unknown) => void;
}

const keyOf = (operation: { name: string }, variables: unknown) => `${operation.name} ${JSON.stringify(variables)}`;

export function openAnswers(client: Pick<ConfabClient, "api" | "isConnected">): Answers {
  const entries = new Map<string, Entry>();
  const timers = new Set<ReturnType<typeof setTimeout>>();
  const open = (operation: Operation<unknown, unknown>, variables: unknown) => openEntry(client.api, operation, variables, (load) => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      if (client.isConnected.get()) load();
    }, RETRY_MS);
    timers.add(timer);
  });
  const refresh: Answers["refresh"] = (...operations) => {
    const names = new Set(operations.map(({ name }) => name));
    for (const [key, entry] of entries) {
      if (!names.has(entry.name)) continue;
      if (entry.isDisplayed()) entry.load();
      else entries.delete(key);
    }
  };
  const stopListening = client.isConnected.subscribe(() => {
    if (client.isConnected.get()) entries.forEach(({ view, isDisplayed, load }) => isDisplayed() && view.get().error?.isRetryable && load());
  });

  return {
    of: <Data, Variables>(operation: Operation<Data, Variables>, variables: Variables) => {
      const key = keyOf(operation, variables);
      const entry = entries.get(key) ?? open(operation as Operation<unknown, unknown>, variables);
      // The entries that were used last are kept.
      entries.delete(key);
      entries.set(key, entry);
      for (const [oldest, { isDisplayed }] of entries) {
        if (entries.size <= MAX_ENTRIES) break;
        if (!isDisplayed()) entries.delete(oldest);
      }
      return entry.view as View<Answer<Data>>;
    },
    put: (operation, variables, data) => entries.get(keyOf(operation, variables))?.put(data),
    refresh,
    stop: () => {
      stopListening();
      timers.forEach(clearTimeout);
    },
  };
}

function openEntry(api: Api, operation: Operation<unknown, unknown>, variables: unknown, later: (load: () => void) => void): Entry {
  let answer: Answer<unknown> = { isLoading: true };
  let requests = 0;
  const listeners = new Set<() => void>();
  const set = (now: Answer<unknown>) => {
    answer = now;
    listeners.forEach((changed) => changed());
  };
  const load = async () => {
    const number = ++requests;
    if (!answer.isLoading) set({ ...answer, isLoading: true });
    try {
      const data = await api.request(operation, variables);
      if (number === requests) set({ data, isLoading: false });
    } catch (error) {
      if (number !== requests) return;
      set({ ...answer, error: error as ConfabError, isLoading: false });
      if ((error as ConfabError).isRetryable) later(() => listeners.size && void load());
    }
  };
  const subscribe = (listener: () => void) => {
    const own = () => listener();
    listeners.add(own);
    if (listeners.size === 1) void load();
    return () => void listeners.delete(own);
  };
  const put = (data: unknown) => {
    requests += 1; // Requests that are open now may have older answers.
    set({ data, isLoading: false });
  };
  return { name: operation.name, put, view: { get: () => answer, subscribe }, isDisplayed: () => listeners.size > 0, load: () => void load() };
}
