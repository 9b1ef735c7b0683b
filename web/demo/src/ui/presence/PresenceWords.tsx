import { NAMES, useMinutes, usePresence, wordsOf } from "./usePresence";

/** The presence of a person in words, with their custom status. */
export function PresenceWords({ userId }: { userId: string }) {
  const presence = usePresence(userId);
  useMinutes();
  if (!presence) return null;
  const { customStatus } = presence;
  return <>{[wordsOf(presence), customStatus?.text].filter(Boolean).join(" · ")}</>;
}

/** For screen readers, where the dot is the only sign. */
export function SaidPresence({ userId }: { userId: string }) {
  const presence = usePresence(userId);
  return presence ? <span className="sr-only">, {NAMES[presence.status].toLowerCase()}{presence.isMobile ? " on a phone" : ""}</span> : null;
}
