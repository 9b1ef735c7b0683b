import { ConfabError } from "../types";

/** The longest wait for an answer. */
export const REQUEST_TIMEOUT_MS = 20_000;

interface GraphQLFailure {
  message: string;
  extensions?: Record<string, unknown>;
}

/** The first error of an answer. It is retryable only if all errors are. */
export function failure(errors: readonly GraphQLFailure[]): ConfabError {
  const decisive = (errors.find(({ extensions }) => extensions?.retryable !== true) ?? errors[0])!;
  const { code = "INTERNAL", retryable = false, retryAfterMs = 0, field } = decisive.extensions ?? {};
  return new ConfabError(decisive.message, String(code), retryable === true, Number(retryAfterMs), field as string | undefined);
}

export const asError = (error: unknown) =>
  Array.isArray(error) ? failure(error as GraphQLFailure[]) : new ConfabError("The connection was lost.", "NETWORK", true);

export const noAnswer = () => new ConfabError("There was no answer.", "NETWORK", true);

/** date: the server's time when it answered, if the header is readable. */
export async function post<D>(url: string, token: string, query: string, variables: unknown, given?: AbortSignal) {
  given?.throwIfAborted();
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), REQUEST_TIMEOUT_MS);
  const abort = () => stop.abort();
  given?.addEventListener("abort", abort);
  const begun = Date.now();
  try {
    const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify({ query, variables }), signal: stop.signal });
    const body = (await response.json().catch(() => null)) as { data?: D; errors?: GraphQLFailure[] } | null;
    if (body?.errors?.length) throw failure(body.errors);
    if (!body?.data) throw new ConfabError(`The server answered with status ${response.status}.`, "UNAVAILABLE", true);
    return { data: body.data, date: Date.parse(response.headers.get("date") ?? "") || undefined, tookMs: Date.now() - begun };
  } catch (error) {
    given?.throwIfAborted();
    if (error instanceof ConfabError) throw error;
    throw new ConfabError(`There was no answer: ${String(error)}`, "NETWORK", true);
  } finally {
    clearTimeout(timer);
    given?.removeEventListener("abort", abort);
  }
}
