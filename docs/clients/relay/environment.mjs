import { Environment, Network, Observable, RecordSource, Store } from "relay-runtime";
import { trying } from "../errors.mjs";
import { requests } from "../http.mjs";
import { openSocket, resuming } from "../socket.mjs";

export function relayEnvironment({ url, token, socket = openSocket({ url, token }) }) {
  const live = resuming(socket);
  const request = requests(url, token); // throws errors: Relay ignores them if there is data as well

  return new Environment({
    store: new Store(new RecordSource()),
    network: Network.create(
      // Relay does not retry. relayAct repeats mutations.
      ({ text, operationKind }, variables) => trying(() => request(text, variables), operationKind === "query"),
      ({ text }, variables) => Observable.create((sink) => live.subscribe({ query: text, variables }, sink)),
    ),
  });
}
