// Executes GraphiQL's operations: subscriptions, and mutations that belong to a connection, over a WebSocket; others by POST. The events
// of a subscription go into the log. Errors are displayed as an answer.

import type { Fetcher } from "@graphiql/toolkit";
import { Kind, parse, type OperationDefinitionNode } from "graphql";

import { authorizationOf, connect, errorsOf, type Payload } from "./connection";
import { eventLogs } from "./events";
import { sortedSchema } from "./schema";

const INTROSPECTION = "IntrospectionQuery";

/** Mutations that the server accepts on a WebSocket only. */
const ON_SOCKET = new Set(["joinVoice", "updateVoice", "leaveVoice", "reportActivity", "renewAuth"]);

type Headers = Record<string, string>;

export interface Answer {
  data?: Record<string, unknown> | null;
  errors?: { message: string }[];
}

export const fetcher: Fetcher = ({ query, variables, operationName }, options) => {
  const headers = (options?.headers ?? {}) as Headers;
  const operation = findOperation(query, operationName);
  const payload = { query, variables, operationName: operation?.name?.value ?? operationName };
  if (operation?.operation === "subscription") return subscribe(payload, headers);
  if (operationName === INTROSPECTION) return post(payload, headers).then(sortedSchema) as never;
  eventLogs.remove();
  return execute(payload, headers) as never;
};

/** Executes a query or mutation. Throws if the server cannot be reached. */
export function execute(payload: Payload, headers: Headers): Promise<Answer> {
  const operation = findOperation(payload.query, payload.operationName);
  const needsSocket = operation?.selectionSet.selections.some((field) => field.kind === Kind.FIELD && ON_SOCKET.has(field.name.value));
  return needsSocket ? mutateOnSocket(payload, headers) : post(payload, headers);
}

async function post(body: object, headers: Headers): Promise<Answer> {
  const token = authorizationOf(headers);
  const given = Object.fromEntries(Object.entries(headers).filter(([name]) => name.toLowerCase() !== "authorization"));
  const response = await fetch(location.pathname, {
    method: "POST",
    headers: {
      accept: "application/graphql-response+json, application/json",
      "content-type": "application/json",
      ...given,
      ...(token ? { authorization: token } : {}),
    },
    body: JSON.stringify(body),
  });
  try {
    return (await response.json()) as Answer;
  } catch {
    return { errors: [{ message: `The server answered ${response.status} ${response.statusText}`.trim() }] };
  }
}

function mutateOnSocket(payload: Payload, headers: Headers): Promise<Answer> {
  return new Promise((resolve) => {
    let answer: Answer = {};
    connect(headers).subscribe(payload, {
      next: (result) => (answer = result as Answer),
      error: (failure) => resolve({ errors: errorsOf(failure) }),
      complete: () => resolve(answer),
    });
  });
}

function subscribe(payload: Payload, headers: Headers) {
  // The form of an observable that GraphiQL accepts.
  return {
    subscribe(observer: { next(value: unknown): void; complete(): void }) {
      const log = eventLogs.begin(payload.operationName ?? "Subscription");
      const add = (result: unknown) => {
        // The log displays them all. GraphiQL stops waiting at the first event.
        if (log.add(result) === 1) observer.next({});
      };
      const unsubscribe = connect(headers).subscribe(payload, {
        next: add,
        complete: () => {
          log.end();
          observer.complete();
        },
        error: (failure) => {
          add({ errors: errorsOf(failure) });
          log.end();
          observer.complete();
        },
      });
      return {
        unsubscribe() {
          log.end();
          unsubscribe();
        },
      };
    },
  } as never;
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
