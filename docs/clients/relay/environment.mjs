import { Environment, Network, Observable, RecordSource, Store } from "relay-runtime";
import { trying } from "../errors.mjs";
import { openSocket, resuming } from "../socket.mjs";

export function relayEnvironment({ url, token, socket = openSocket({ url, token }) }) {
  const live = resuming(socket);

  async function post(query, variables) {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/graphql-response+json",
        authorization: `Bearer ${await token()}`,
      },
      body: JSON.stringify({ query, variables }),
    });
    const result = await response.json();
    // Relay ignores errors if there is data as well.
    if (result.errors) throw Object.assign(new Error(result.errors[0].message), { errors: result.errors });
    return result;
  }

  return new Environment({
    store: new Store(new RecordSource()),
    network: Network.create(
      // Relay does not retry. Its optimistic response stays visible during these attempts.
      ({ text, operationKind }, variables) =>
        trying(() => post(text, variables), operationKind === "query" || Boolean(variables.input?.idempotencyKey)),
      ({ text }, variables) => Observable.create((sink) => live.subscribe({ query: text, variables }, {
        next: (result) => sink.next(result),
        error: (error) => sink.error(Array.isArray(error) ? Object.assign(new Error(error[0].message), { errors: error }) : error),
        complete: () => sink.complete(),
      })),
    ),
  });
}
