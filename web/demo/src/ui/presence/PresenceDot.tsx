import type { PresenceSetting, PresenceStatus } from "../../gql";
import { usePresence } from "./usePresence";

type Shown = PresenceStatus | PresenceSetting;

/** The sign of a presence: its shape says the same as its colour. */
export function PresenceIcon({ status, mobile }: { status: Shown; mobile?: boolean }) {
  const hidden = status === "OFFLINE" || status === "INVISIBLE";
  return (
    <svg className="sign" viewBox="0 0 12 12" data-status={status} aria-hidden="true">
      {mobile && status === "ONLINE" ? (
        <path fillRule="evenodd" d="M4 0h4a1.5 1.5 0 0 1 1.5 1.500v9A1.5 1.5 0 0 1 8 12H4a1.5 1.5 0 0 1-1.5-1.500v-9A1.5 1.5 0 0 1 4 0m0 2v6h4V2zm1.2 7.200v1h1.600v-1z" />
      ) : status === "IDLE" ? (
        <path d="M4.6.6a5.6 5.6 0 1 0 6.8 6.800A4.6 4.6 0 0 1 4.6.6" />
      ) : status === "DND" ? (
        <path fillRule="evenodd" d="M6 .4a5.6 5.6 0 1 0 0 11.200A5.6 5.6 0 0 0 6 .4M3 5.200h6v1.600H3z" />
      ) : hidden ? (
        <path fillRule="evenodd" d="M6 .4a5.6 5.6 0 1 0 0 11.200A5.6 5.6 0 0 0 6 .4m0 2.200a3.4 3.4 0 1 1 0 6.8 3.4 3.4 0 0 1 0-6.8" />
      ) : (
        <circle cx="6" cy="6" r="5.6" />
      )}
    </svg>
  );
}

/** The presence of a person at the corner of their picture. Empty until it is known. */
export function PresenceDot({ userId }: { userId: string }) {
  const presence = usePresence(userId);
  return (
    <span className="dot" data-user={userId} data-status={presence?.status} data-mobile={presence?.isMobile || undefined}>
      {presence && <PresenceIcon status={presence.status} mobile={presence.isMobile} />}
    </span>
  );
}
