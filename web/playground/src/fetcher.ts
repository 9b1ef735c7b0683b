// The connection to Confab: queries and mutations by POST, subscriptions over one WebSocket that opens with the first of them.
// Errors are displayed as an answer.

import type { Fetcher } from "@graphiql/toolkit";
import { Kind, parse, type OperationDefinitionNode } from "graphql";
import { createClient, type Client } from "graphql-ws";

import { identity, onIdentity, type Identity } from "./identity";

const PATH = location.pathname;

/** Final close codes, as texts for users. */
const REASONS: Record<number, string> = {
  4400: "The server refused the connection: check the header Confab-Act-As.",
  4401: "You are not signed in, or the token was refused: sign in and run it again.",
  4403: "The token was refused, has expired, or may not act for users: sign in and run it again.",
  4429: "Too many connections or operations at once: wait a little and run it again.",
};

interface Failure {
  message: string;
  extensions?: unknown;
}

let socket:
  | { client: Client; authorization: string | undefined; actAs: string | undefined; who: string | undefined; open: boolean }
  | undefined;

onIdentity((next) => {
  // The same user with a later token: open subscriptions continue.
  if (socket && next?.person && socket.who === next.person.id) renew(next);
  else hangUp();
});

export const fetcher: Fetcher = ({ query, variables, operationName }, options) => {
  const headers = (options?.headers ?? {}) as Record<string, string>;
  const operation = findOperation(query, operationName);
  const payload = { query, variables, operationName: operation?.name?.value ?? operationName };
  return operation?.operation === "subscription" ? subscribe(payload, headers) : post(payload, headers);
};

async function post(body: object, headers: Record<string, string>): Promise<never> {
  const token = authorization(headers);
  const response = await fetch(PATH, {
    method: "POST",
    headers: {
      accept: "application/graphql-response+json, application/json",
      "content-type": "application/json",
      ...headers,
      ...(token ? { authorization: token } : {}),
    },
    body: JSON.stringify(body),
  });
  try {
    return (await response.json()) as never;
  } catch {
    return { errors: [{ message: `The server answered ${response.status} ${response.statusText}`.trim() }] } as never;
  }
}

function subscribe(payload: { query: string; variables?: Record<string, unknown>; operationName?: string | null }, headers: Record<string, string>) {
  const client = connect(authorization(headers), header(headers, "confab-act-as"));
  // The form of an observable that GraphiQL accepts.
  return {
    subscribe(observer: { next(value: unknown): void; complete(): void }) {
      const unsubscribe = client.subscribe(payload, {
        next: (result) => observer.next(result),
        complete: () => observer.complete(),
        error: (failure) => {
          observer.next({ errors: errorsOf(failure) });
          observer.complete();
        },
      });
      return { unsubscribe };
    },
  } as never;
}

function connect(authorization: string | undefined, actAs: string | undefined): Client {
  if (socket && socket.authorization === authorization && socket.actAs === actAs) return socket.client;
  hangUp();
  const mine = { authorization, actAs, who: identity()?.person?.id, open: false } as NonNullable<typeof socket>;
  mine.client = createClient({
    url: location.origin.replace(/^http/, "ws") + PATH,
    connectionParams: () => ({
      ...(mine.authorization ? { Authorization: mine.authorization } : {}),
      ...(actAs === undefined ? {} : { actAs: decoded(actAs) }),
    }),
    retryAttempts: 5,
    // A refused token is refused every time.
    shouldRetry: (event) => event instanceof CloseEvent && !(event.code in REASONS) && event.code < 4500,
    on: { connected: () => (mine.open = true), closed: () => (mine.open = false) },
  });
  socket = mine;
  return mine.client;
}

/** Sends the later token over the open socket, so that the socket outlives the first token. */
function renew(next: Identity): void {
  if (!socket) return;
  socket.authorization = `Bearer ${next.token}`;
  if (!socket.open) return;
  const query = "mutation Renew($token: String!) { renewAuth(token: $token) }";
  const ignore = () => undefined;
  socket.client.subscribe({ query, variables: { token: next.token } }, { next: ignore, error: ignore, complete: ignore });
}

function hangUp(): void {
  void socket?.client.dispose();
  socket = undefined;
}

/** The headers editor takes precedence over the signed-in user. */
function authorization(headers: Record<string, string>): string | undefined {
  const given = header(headers, "authorization");
  if (given !== undefined) return given;
  const token = identity()?.token;
  return token ? `Bearer ${token}` : undefined;
}

function header(headers: Record<string, string>, wanted: string): string | undefined {
  const name = Object.keys(headers).find((key) => key.toLowerCase() === wanted);
  return name === undefined ? undefined : headers[name];
}

/** The user id in the header. The server refuses a value that is not percent-encoded. */
function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return "";
  }
}

/** The operation of that name, or the only one: right after a change of tabs GraphiQL still names the previous one. */
function findOperation(query: string, name: string | null | undefined): OperationDefinitionNode | undefined {
  try {
    const operations = parse(query).definitions.filter((definition) => definition.kind === Kind.OPERATION_DEFINITION);
    return operations.find((operation) => operation.name?.value === name) ?? (operations.length === 1 ? operations[0] : undefined);
  } catch {
    // The server reports the error.
    return undefined;
  }
}

function errorsOf(failure: unknown): Failure[] {
  if (Array.isArray(failure)) return failure as Failure[];
  if (failure instanceof CloseEvent) {
    const reason = REASONS[failure.code] ?? "The connection was closed and could not be restored.";
    return [{ message: reason, extensions: { closeCode: failure.code, closeReason: failure.reason } }];
  }
  return [{ message: failure instanceof Error ? failure.message : "The connection failed: is the server running?" }];
}
