import type { Presence, User } from "@confab/client";
import { useCallback, useEffect, useState, useSyncExternalStore, type RefObject } from "react";

import { MeDocument, OwnPresenceDocument, type PresenceSetting } from "../../gql";
import { since } from "../format";
import { useAsked, useScreen, useWorld } from "../world";

const nothing = () => {};
const visible = new WeakMap<Element, (onScreen: boolean) => void>();
const observer = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => visible.get(target)?.(isIntersecting)), { rootMargin: "100px" });

export function useOnScreen(place: RefObject<Element | null>) {
  const [onScreen, setOnScreen] = useState(false);
  useEffect(() => {
    const element = place.current!;
    visible.set(element, setOnScreen);
    observer.observe(element);
    return () => observer.unobserve(element);
  }, []);
  return onScreen;
}

/** Undefined until it is known. watched: the person is on the screen here; otherwise what is known of them anyway. */
export function usePresence(userId: string | null | undefined, watched = true): Presence | undefined {
  const { presences } = useWorld();
  const there = useScreen() === "there";
  useEffect(() => (userId && watched && there ? presences.watch(userId) : undefined), [presences, userId, watched, there]);
  const listen = useCallback((changed: () => void) => (userId ? presences.onChange(userId, changed) : nothing), [presences, userId]);
  return useSyncExternalStore(listen, () => (userId ? presences.of(userId) : undefined));
}

const MOST_SENDERS = 50;

/** Follows people who are on the screen without a presence dot, so that changes of their name or picture are displayed. */
export function useFollowed(userIds: readonly string[]) {
  const { presences, me } = useWorld();
  const there = useScreen() === "there";
  const people = [...new Set(userIds)].filter((each) => each !== me).slice(-MOST_SENDERS).sort().join(" ");
  useEffect(() => {
    if (!there || !people) return;
    const ends = people.split(" ").map((each) => presences.watch(each));
    return () => ends.forEach((end) => end());
  }, [presences, there, people]);
}

/** A person with the newest known name and picture. For lists that are not in the cache. */
export function useNewest(user: User): User {
  const { me } = useWorld();
  const known = usePresence(user.id, false)?.user;
  const own = useAsked({ query: MeDocument, pause: user.id !== me, requestPolicy: "cache-only" })[0].data?.me;
  return (user.id === me ? own : known) ?? user;
}

export const NAMES: Record<PresenceSetting | "OFFLINE", string> = {
  ONLINE: "Online",
  IDLE: "Idle",
  DND: "Do not disturb",
  INVISIBLE: "Invisible",
  OFFLINE: "Offline",
};

const MINUTE_MS = 60_000;

/** "Online", "Idle, last active 12 minutes ago", "Last active yesterday at 18:05". */
export function wordsOf({ status, isMobile, lastActiveAt }: Presence): string {
  if (status === "OFFLINE") return lastActiveAt ? `Last active ${since(lastActiveAt)}` : "Offline";
  if (status === "IDLE" && lastActiveAt) return `Idle, last active ${since(lastActiveAt)}`;
  return status === "ONLINE" && isMobile ? "Online on a phone" : NAMES[status];
}

/** Renders again every minute, so that "5 minutes ago" becomes 6. */
export function useMinutes() {
  const [, setMinute] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setMinute((minute) => minute + 1), MINUTE_MS);
    return () => clearInterval(timer);
  }, []);
}

/** What the user has set. It is asked for again when it ends, and when the page is visible again: another device may have changed it. */
export function useOwnPresence() {
  const [{ data }, again] = useAsked({ query: OwnPresenceDocument, pause: useScreen() !== "there" });
  const own = data?.ready.presence;
  const ends = [own?.until, own?.customStatus?.expiresAt].flatMap((each) => (each ? [Date.parse(each)] : []));
  const next = Math.min(...ends, Infinity);
  useEffect(() => {
    const refresh = () => again({ requestPolicy: "network-only" });
    const look = () => document.hidden || refresh();
    document.addEventListener("visibilitychange", look);
    const wait = next - Date.now();
    const timer = wait < 2 ** 31 ? setTimeout(refresh, Math.max(0, wait) + 500) : undefined;
    return () => (clearTimeout(timer), document.removeEventListener("visibilitychange", look));
  }, [next]);
  return own;
}
