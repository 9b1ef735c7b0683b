import { PRESENCE_NAMES, useEveryMinute, usePresence, presenceText } from "./usePresence";

/** The presence of a person as text, with their custom status. */
export function PresenceText({ userId }: { userId: string }) {
  const presence = usePresence(userId);
  useEveryMinute();
  if (!presence) return null;
  const { customStatus } = presence;
  return <>{[presenceText(presence), customStatus?.text].filter(Boolean).join(" · ")}</>;
}

/** For screen readers, where the dot is the only sign. */
export function PresenceForScreenReaders({ userId }: { userId: string }) {
  const presence = usePresence(userId);
  return presence ? <span className="sr-only">, {PRESENCE_NAMES[presence.status].toLowerCase()}{presence.isMobile ? " on a phone" : ""}</span> : null;
}
