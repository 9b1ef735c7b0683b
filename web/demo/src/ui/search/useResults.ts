import type { Session, User } from "@confab/client";
import { useView } from "@confab/client/react";
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";

import { filterByName } from "../../confab/folding";
import { NO_FILTERS, type FoundMessage, type SearchState } from "../../confab/search";
import { ChannelNamesDocument, type ChannelNamesQuery } from "../../gql";
import { isThreadsGateway } from "../sessions/SessionList";
import { useApp } from "../appContext";

type Workspace = NonNullable<ChannelNamesQuery["workspace"]>;

export interface NamedChannel {
  channel: Workspace["channels"]["edges"][number]["node"];
  workspace: Pick<Workspace, "id" | "name">;
}

export type Result =
  | { kind: "person"; key: string; user: User }
  | { kind: "session"; key: string; session: Session }
  | { kind: "channel"; key: string; channel: NamedChannel }
  | { kind: "message"; key: string; found: FoundMessage }
  | { kind: "more"; key: string };

export interface Group {
  title: string;
  results: Result[];
}

const MAX_PEOPLE = 5;
const MAX_CONVERSATIONS = 6;
const NOTHING_KNOWN: NamedChannel[] = [];

/** Sessions and channels that are found by name: all sessions, and the channels of all workspaces. */
export function useNames() {
  const { client } = useApp();
  const { sessions: all } = useView(client.sessions());
  const sessions = useMemo(() => all.filter((each) => !isThreadsGateway(each)), [all]);
  const workspaceIds = useView(client.workspaces).map(({ id }) => id).join(" ");
  const [channels, setChannels] = useState(NOTHING_KNOWN);
  useEffect(() => {
    if (!workspaceIds) return;
    let isWanted = true;
    const requests = workspaceIds.split(" ").map((id) => client.api.request(ChannelNamesDocument, { id }).then(namedIn, () => [])); // The others are found nevertheless.
    void Promise.all(requests).then((named) => isWanted && setChannels(named.flat()));
    return () => void (isWanted = false);
  }, [client, workspaceIds]);
  return { sessions, channels };
}

const namedIn = ({ workspace }: ChannelNamesQuery): NamedChannel[] => workspace?.channels.edges.map(({ node }) => ({ channel: node, workspace })) ?? [];

export type Names = ReturnType<typeof useNames>;

export function useSearchState(): SearchState {
  const { search } = useApp();
  return useSyncExternalStore(search.onChange, search.state);
}

const peerOf = ({ conversation }: Session) => (conversation.__typename === "PrivateConversation" ? conversation.peer : null);

/** The results in groups. Without a text: the conversations at the top of the list. */
export function groupsOf(state: SearchState, { sessions, channels }: Names, me: string): Group[] {
  const text = state.text.trim();
  const hasFilters = !hasNoFilters(state);
  const ofSession = (session: Session): Result => ({ kind: "session", key: `session ${session.id}`, session });
  if (!text) return hasFilters ? [] : [{ title: "Recent", results: sessions.slice(0, MAX_CONVERSATIONS).map(ofSession) }];

  const known = sessions.flatMap((session) => peerOf(session) ?? []);
  const near = filterByName(known, ({ displayName }) => displayName, text);
  const found = state.people.filter(({ id }) => id !== me && !near.some((each) => each.id === id));
  const people = [...near, ...found].slice(0, MAX_PEOPLE);

  const named = [
    ...sessions.filter((session) => !peerOf(session)).map((session) => ({ name: session.conversation.title, result: ofSession(session) })),
    ...channels.map((channel): { name: string; result: Result } => ({ name: channel.channel.name, result: { kind: "channel", key: `channel ${channel.channel.id}`, channel } })),
  ];
  const conversations = filterByName(named, ({ name }) => name, text).slice(0, MAX_CONVERSATIONS);
  const messages: Result[] = state.messages.map((each) => ({ kind: "message", key: each.node.id, found: each }));
  if (state.after && messages.length) messages.push({ kind: "more", key: "more" });
  return [
    { title: "People", results: hasFilters ? [] : people.map((user): Result => ({ kind: "person", key: `person ${user.id}`, user })) },
    { title: "Conversations", results: hasFilters ? [] : conversations.map(({ result }) => result) },
    { title: "Messages", results: messages },
  ].filter(({ results }) => results.length > 0);
}

export const hasNoFilters = (state: SearchState) => JSON.stringify(state.filters) === JSON.stringify(NO_FILTERS);
