import { ERASED_NAME, isErased, type Presence, type Session, type User, type View } from "@confab/client";
import { useView } from "@confab/client/react";
import { useEffect, useState } from "react";

import { OwnPresenceDocument, type PresenceSetting } from "../../gql";
import { relativeTime } from "../format";
import { useAnswer, useApp } from "../appContext";

const UNKNOWN: View<undefined> = { get: () => undefined, subscribe: () => () => {} };

/** Undefined until it is known. The person is followed while a component with this hook is in the page. */
export function usePresence(userId: string | null | undefined): Presence | undefined {
  const { client } = useApp();
  return useView<Presence | undefined>(userId ? client.presence(userId) : UNKNOWN);
}

/** The displayed name of a user. That of an erased user is a pseudonym. */
export const nameOf = ({ displayName }: Pick<User, "displayName">) => (isErased(displayName) ? ERASED_NAME : displayName);

/** A person with their newest name and picture: users in answers and messages are as they were then. */
export function useLatestUser<Person extends User | null | undefined>(person: Person): Person | User {
  const { client, me } = useApp();
  const isMe = person?.id === me;
  const own = useView(client.me);
  const other = usePresence(isMe || (person && isErased(person.id)) ? null : person?.id)?.user;
  const newest: Person | User = (person && (isMe ? own : other)) ?? person;
  return newest && isErased(newest.displayName) ? { ...newest, displayName: ERASED_NAME } : newest;
}

/** The title of a conversation: of a private one, the newest name of the other person. */
export function useTitle(conversation: Session["conversation"] | undefined): string {
  const peer = useLatestUser(conversation?.__typename === "PrivateConversation" ? conversation.peer : null);
  return peer?.displayName ?? conversation?.title ?? "";
}

export const PRESENCE_NAMES: Record<PresenceSetting | "OFFLINE", string> = {
  ONLINE: "Online",
  IDLE: "Idle",
  DND: "Do not disturb",
  INVISIBLE: "Invisible",
  OFFLINE: "Offline",
};

const MINUTE_MS = 60_000;

/** "Online", "Idle, last active 12 minutes ago", "Last active yesterday at 18:05". */
export function presenceText({ status, isMobile, lastActiveAt }: Presence): string {
  if (status === "OFFLINE") return lastActiveAt ? `Last active ${relativeTime(lastActiveAt)}` : "Offline";
  if (status === "IDLE" && lastActiveAt) return `Idle, last active ${relativeTime(lastActiveAt)}`;
  return status === "ONLINE" && isMobile ? "Online on a phone" : PRESENCE_NAMES[status];
}

/** Renders again every minute, so that "5 minutes ago" becomes 6. */
export function useEveryMinute() {
  const [, setMinute] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setMinute((minute) => minute + 1), MINUTE_MS);
    return () => clearInterval(timer);
  }, []);
}

/** What the user has set. It is requested again when it ends, and when the page is visible again: another device may have changed it. */
export function useOwnPresence() {
  const { answers } = useApp();
  const own = useAnswer(OwnPresenceDocument, {}).data?.ready.presence;
  const ends = [own?.until, own?.customStatus?.expiresAt].flatMap((each) => (each ? [Date.parse(each)] : []));
  const next = Math.min(...ends, Infinity);
  useEffect(() => {
    const refresh = () => answers.refresh(OwnPresenceDocument);
    const look = () => document.hidden || refresh();
    document.addEventListener("visibilitychange", look);
    const wait = next - Date.now();
    const timer = wait < 2 ** 31 ? setTimeout(refresh, Math.max(0, wait) + 500) : undefined;
    return () => (clearTimeout(timer), document.removeEventListener("visibilitychange", look));
  }, [answers, next]);
  return own;
}
