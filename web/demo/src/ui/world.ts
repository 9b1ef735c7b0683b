/** The context of every component: the signed-in user, and the connection to Confab. */
import type { AnyVariables, Client } from "@urql/core";
import { createContext, useContext, useEffect, useState, useSyncExternalStore } from "react";
import { useQuery, type UseQueryArgs, type UseQueryResponse } from "urql";

import type { Blocks } from "../confab/blocks";
import type { Connection } from "../confab/client";
import type { Deletions } from "../confab/deletions";
import { isRetryable, type Outbox } from "../confab/outbox";
import type { Device } from "../confab/device";
import type { Push } from "../confab/push";
import type { Presences } from "../confab/presence";
import type { Search } from "../confab/search";
import type { LiveEvent, Sync } from "../confab/sync";
import type { Uploads } from "../confab/uploads";
import type { Workspaces } from "../confab/workspaces";
import type { Person } from "../signIn";
import type { Question } from "./Confirm";
import type { Undoable } from "./undo/useUndo";

export interface World {
  me: string;
  client: Client;
  connection: Connection;
  sync: Sync;
  outbox: Outbox;
  blocks: Blocks;
  deletions: Deletions;
  uploads: Uploads;
  device: Device;
  presences: Presences;
  push: Push;
  workspaces: Workspaces;
  search: Search;
  people: Person[];
  /** Shows the user why a mutation failed. */
  tell: (what: string) => void;
  /** Asks the user; true if they agree. */
  confirm: (question: Question) => Promise<boolean>;
  /** Shows what was done, with a button to undo it. */
  offerUndo: (what: Undoable) => void;
}

export const WorldContext = createContext<World | null>(null);
export const useWorld = () => useContext(WorldContext)!;

/** True while there is a connection to the server. */
export function useOnline() {
  const { connection } = useWorld();
  return useSyncExternalStore(connection.onChange, () => connection.state().connected);
}

/** Whether the first screen is there. */
export function useScreen() {
  const { sync } = useWorld();
  return useSyncExternalStore(sync.onScreen, sync.screen);
}

const AGAIN_MS = 1000;

/** A query that is repeated when the network is back, instead of staying empty. */
export function useAsked<Data, Variables extends AnyVariables>(args: UseQueryArgs<Variables, Data>): UseQueryResponse<Data, Variables> {
  const asked = useQuery(args);
  const [{ error, fetching }, again] = asked;
  const online = useOnline();
  useEffect(() => {
    if (!online || fetching || !error || !isRetryable(error)) return;
    const timer = setTimeout(() => again({ requestPolicy: "network-only" }), AGAIN_MS);
    return () => clearTimeout(timer);
  }, [online, error, fetching]);
  return asked;
}

export function useOutbox(conversationId: string) {
  const { outbox } = useWorld();
  return useSyncExternalStore(outbox.onChange, outbox.items).filter((each) => each.conversationId === conversationId);
}

/** Live events; the listener may change from one rendering to the next. */
export function useLiveEvents(listener: (event: LiveEvent) => void) {
  const { sync } = useWorld();
  useEffect(() => sync.onEvent(listener));
}

/** True while the user looks at this page: displayed messages are then read. */
export function useWatched() {
  const [watched, setWatched] = useState(document.hasFocus() && !document.hidden);
  useEffect(() => {
    const look = () => setWatched(document.hasFocus() && !document.hidden);
    const moments = ["focus", "blur", "visibilitychange"] as const;
    moments.forEach((each) => (each === "visibilitychange" ? document : window).addEventListener(each, look));
    return () => moments.forEach((each) => (each === "visibilitychange" ? document : window).removeEventListener(each, look));
  }, []);
  return watched;
}

/** A device signals typing every 3 s, and may disconnect without a signal of the end. */
const TYPING_LASTS_MS = 8000;

/** People who are typing: names by conversation. */
export function useTyping() {
  const [typing, setTyping] = useState<Record<string, Record<string, string>>>({});
  const stop = (conversationId: string, userId: string) =>
    setTyping((now) => {
      const { [userId]: _, ...others } = now[conversationId] ?? {};
      return _ ? { ...now, [conversationId]: others } : now;
    });
  const [timers] = useState(() => new Map<string, ReturnType<typeof setTimeout>>());
  useLiveEvents((event) => {
    if (event.__typename === "MessageCreated") stop(event.message.conversationId, event.message.sender.id);
    if (event.__typename === "TypingStopped") stop(event.conversationId, event.user.id);
    if (event.__typename !== "TypingStarted") return;
    const { conversationId, user } = event;
    setTyping((now) => ({ ...now, [conversationId]: { ...now[conversationId], [user.id]: user.displayName } }));
    const key = `${conversationId} ${user.id}`;
    clearTimeout(timers.get(key));
    timers.set(key, setTimeout(() => stop(conversationId, user.id), TYPING_LASTS_MS));
  });
  return (conversationId: string) => {
    const names = Object.values(typing[conversationId] ?? {}).map((name) => name.split(" ")[0]!);
    if (!names.length) return "";
    return names.length === 1 ? `${names[0]} is typing…` : `${names.slice(0, 2).join(" and ")} are typing…`;
  };
}
