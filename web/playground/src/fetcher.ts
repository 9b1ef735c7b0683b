// How operations reach Confab: queries and mutations by POST, subscriptions over one WebSocket that is opened when the first one starts.
// Whatever fails is shown as an answer, in words.

import type { Fetcher } from "@graphiql/toolkit";
import { Kind, parse, type OperationDefinitionNode } from "graphql";
import { createClient, type Client } from "graphql-ws";

import { identity, onIdentity, type Identity } from "./identity";

const PATH = location.pathname;

/** Close codes that end it for good, as people may be told. */
const REASONS: Record<number, string> = {
  4401: "Nobody is signed in, or the token was refused: sign in and run it again.",
  4403: "The token was refused, or has expired: sign in again and run it once more.",
  4429: "Too many connections or operations at once: wait a little and run it again.",
};

interface Failure {
  message: string;
  extensions?: unknown;
}

let socket: { client: Client; authorization: string | undefined; who: string | undefined; open: boolean } | undefined;

onIdentity((next) => {
  // The same person with a later token: what is open goes on.
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
  const client = connect(authorization(headers));
  // What GraphiQL takes for an observable.
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

function connect(authorization: string | undefined): Client {
  if (socket?.authorization === authorization && socket) return socket.client;
  hangUp();
  const mine = { authorization, who: identity()?.person?.id, open: false } as NonNullable<typeof socket>;
  mine.client = createClient({
    url: location.origin.replace(/^http/, "ws") + PATH,
    connectionParams: () => (mine.authorization ? { Authorization: mine.authorization } : {}),
    retryAttempts: 5,
    // Refused tokens are refused again, however often they are shown.
    shouldRetry: (event) => event instanceof CloseEvent && !(event.code in REASONS) && event.code < 4500,
    on: { connected: () => (mine.open = true), closed: () => (mine.open = false) },
  });
  socket = mine;
  return mine.client;
}

/** Shows the server the later token on the socket that is open, so that it outlives the first one's. */
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

/** What the headers editor says goes before who is signed in. */
function authorization(headers: Record<string, string>): string | undefined {
  const name = Object.keys(headers).find((key) => key.toLowerCase() === "authorization");
  if (name !== undefined) return headers[name];
  const token = identity()?.token;
  return token ? `Bearer ${token}` : undefined;
}

/** The operation of that name, or the only one there is: right after a change of tabs GraphiQL still names the one before. */
function findOperation(query: string, name: string | null | undefined): OperationDefinitionNode | undefined {
  try {
    const operations = parse(query).definitions.filter((definition) => definition.kind === Kind.OPERATION_DEFINITION);
    return operations.find((operation) => operation.name?.value === name) ?? (operations.length === 1 ? operations[0] : undefined);
  } catch {
    // The server says what is wrong with it.
    return undefined;
  }
}

function errorsOf(failure: unknown): Failure[] {
  if (Array.isArray(failure)) return failure as Failure[];
  if (failure instanceof CloseEvent) {
    const reason = REASONS[failure.code] ?? "The connection was closed, and did not come back.";
    return [{ message: reason, extensions: { closeCode: failure.code, closeReason: failure.reason } }];
  }
  return [{ message: failure instanceof Error ? failure.message : "The connection failed: is the server running?" }];
}
