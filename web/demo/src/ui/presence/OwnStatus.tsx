import type { User } from "@confab/client";

import { Avatar } from "../Avatar";
import { StatusEmoji } from "./CustomStatus";
import { PresenceIcon } from "./PresenceDot";
import { StatusDialog } from "./StatusDialog";
import { ProfileDialog } from "../profile/ProfileDialog";
import { PRESENCE_NAMES, useOwnPresence } from "./usePresence";

type Opened = "status" | "profile" | null;

/** The user's own picture and name: a click opens their status, and from there their profile. */
export function OwnStatus({ me, opened, open }: { me: User; opened: Opened; open: (what: Opened) => void }) {
  const own = useOwnPresence();
  // ONLINE means: derived from the devices, and this one is in use.
  const presenceName = own ? PRESENCE_NAMES[own.setting] : "";
  return (
    <>
      <button className="own-status" aria-label={`Your status: ${presenceName}`} title="Your status" disabled={!own} onClick={() => open("status")}>
        <Avatar id={me.id} name={me.displayName} url={me.avatarUrl} small />
        {own && <span className="dot" data-status={own.setting}><PresenceIcon status={own.setting} /></span>}
      </button>
      <h1>{me.displayName} <StatusEmoji status={own?.customStatus} /></h1>
      {opened === "status" && own && <StatusDialog me={me} own={own} close={() => open(null)} editProfile={() => open("profile")} />}
      {opened === "profile" && <ProfileDialog close={() => open(null)} editStatus={() => open("status")} />}
    </>
  );
}
