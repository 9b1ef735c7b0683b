/**
 * The order of answers and events, for data without a version: the reactions of a message, and whether it is pinned.
 *
 * Guarantees: an answer to a request that began before an event arrived does not replace the data of the event. If it is the answer to
 * the user's own reaction, the reactions are fetched again, because the event may be older than that reaction.
 */
import { makeOperation, mapExchange, type Client, type Exchange } from "@urql/core";

import { ReactionsNowDocument } from "../gql";

/** The key of a position in the order. Operations have it, and so do the messages in their answers. */
const PLACE = Symbol("place in the order");
const MOST_KEPT = 2_000;

interface Placed {
  [PLACE]?: number;
}

export interface AnswerOrder {
  /** Comes after the cache in the list of exchanges, so it gets each answer and event before the cache does. */
  exchange: Exchange;
  /** Whether an event has newer data about this message of an answer. */
  isOutdated(message: object): boolean;
  askForReactions(messageId: string): void;
}

export function orderAnswers(): AnswerOrder {
  let now = 0;
  let client: Client | undefined;
  /** The position of the last event about a message, by its id. */
  const told = new Map<string, number>();
  const tell = (messageId: string) => {
    told.delete(messageId);
    told.set(messageId, now);
    if (told.size > MOST_KEPT) told.delete(told.keys().next().value!);
  };

  const place = (value: unknown, at: number, isEvent: boolean): void => {
    if (Array.isArray(value)) return value.forEach((each) => place(each, at, isEvent));
    if (typeof value !== "object" || value === null) return;
    const { __typename, id, messageId, reactions } = value as Record<string, unknown>;
    if (__typename === "Message") (value as Placed)[PLACE] = at;
    if (isEvent && reactions) tell(String(messageId ?? id));
    Object.values(value).forEach((each) => place(each, at, isEvent));
  };

  const exchange = mapExchange({
    onOperation: (operation) => makeOperation(operation.kind, operation, { ...operation.context, [PLACE]: (now += 1) }),
    onResult: ({ operation, data }) => {
      const isEvent = operation.kind === "subscription";
      if (isEvent) now += 1;
      place(data, isEvent ? now : ((operation.context as Placed)[PLACE] ?? now), isEvent);
    },
  });

  return {
    exchange: (input) => ((client = input.client), exchange(input)),
    isOutdated: (message) => (told.get((message as { id: string }).id) ?? 0) > ((message as Placed)[PLACE] ?? Infinity),
    askForReactions: (id) => queueMicrotask(() => void client?.query(ReactionsNowDocument, { id }, { requestPolicy: "network-only" }).toPromise()),
  };
}
