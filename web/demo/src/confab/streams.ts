/**
 * Subscriptions that outlive their connection.
 *
 * Guarantees: after a reconnect, and after an error that passes, a subscription continues after its last event, by `since` or by the
 * `rev` of each workspace or channel. So its reader misses and repeats nothing.
 */
import type { SubscriptionForwarder } from "@urql/core";
import type { GraphQLError } from "graphql";
import type { Client } from "graphql-ws";

import { backoff } from "../../../client/src/connection/backoff";

interface Position {
  id: string;
  rev?: number | null;
}

/** The parts of events that say where they are. Of an event of a workspace or channel, an id or an object names it. */
interface Placed {
  __typename?: string;
  cursor?: string;
  rev?: number;
  workspaceId?: string;
  workspace?: { id: string };
  channel?: { workspace?: { id: string } };
  conversationId?: string;
  reset?: boolean;
  reason?: string;
  hasMore?: boolean;
}

interface Result {
  data?: Record<string, Placed> | null;
}

type CaughtUp = (stream: string, reset: boolean) => void;

export const SESSIONS = "sessions";
export const MESSAGES = "messages";

/** For urql. caughtUp: called when everything missed in a stream has arrived. */
export function forwardedTo(socket: Client, caughtUp: CaughtUp): SubscriptionForwarder {
  return ({ query, variables }) => ({
    subscribe: (sink) => {
      // graphql-ws sends this payload again after each reconnect.
      const payload = { query: query!, variables: { ...variables } as Record<string, unknown> };
      let stop = () => {};
      let tries = 0;
      const begin = () => {
        stop = socket.subscribe<Record<string, Placed>>(payload, {
          ...sink,
          next: (result) => {
            tries = 0;
            advance(payload.variables, result);
            sink.next(result as Parameters<typeof sink.next>[0]);
            announce(result, caughtUp);
          },
          // If the server cannot start it now (a rate limit, a database that is away), try again from the same position.
          error: (error) => {
            const refusals = Array.isArray(error) ? (error as GraphQLError[]).map((each) => each.extensions ?? {}) : [];
            if (!refusals.length || refusals.some((each) => each.retryable !== true)) return sink.error(error);
            const asked = Math.max(...refusals.map((each) => Number(each.retryAfterMs ?? 0)));
            const timer = setTimeout(begin, asked + backoff(tries++));
            stop = () => clearTimeout(timer);
          },
        });
      };
      begin();
      return { unsubscribe: () => stop() };
    },
  });
}

const eventOf = ({ data }: Result): Placed => Object.values(data ?? {})[0] ?? {};
const workspaceOf = ({ workspaceId, workspace, channel }: Placed) => workspaceId ?? workspace?.id ?? channel?.workspace?.id;

const moved = (positions: Position[], id: string | undefined, rev: number) => positions.map((each) => (each.id === id ? { ...each, rev } : each));

function advance(variables: Record<string, unknown>, result: Result): void {
  const event = eventOf(result);
  if (event.cursor) variables.since = event.cursor;
  if (event.rev !== undefined && Array.isArray(variables.workspaces)) {
    variables.workspaces = moved(variables.workspaces as Position[], workspaceOf(event), event.rev);
  }
  if (event.rev !== undefined && Array.isArray(variables.channels)) {
    variables.channels = moved(variables.channels as Position[], event.conversationId, event.rev);
  }
}

function announce(result: Result, caughtUp: CaughtUp): void {
  const event = eventOf(result);
  if (event.__typename === "CaughtUp") caughtUp(MESSAGES, !!event.reset);
  else if (event.__typename === "WorkspaceCaughtUp") caughtUp(event.workspaceId!, !!event.reset);
  else if (event.reason === "CATCH_UP" && !event.hasMore) caughtUp(SESSIONS, !!event.reset);
}
