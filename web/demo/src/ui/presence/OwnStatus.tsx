import { useState } from "react";

import type { UserPartsFragment } from "../../gql";
import { Avatar } from "../Avatar";
import { StatusEmoji } from "./CustomStatus";
import { Sign } from "./Dot";
import { StatusDialog } from "./StatusDialog";
import { NAMES, useOwnPresence } from "./usePresence";

/** The user's own picture and name: a click opens their status. */
export function OwnStatus({ me }: { me: UserPartsFragment }) {
  const own = useOwnPresence();
  const [open, setOpen] = useState(false);
  // ONLINE means: derived from the devices, and this one is in use.
  const words = own ? NAMES[own.setting] : "";
  return (
    <>
      <button className="own-status" aria-label={`Your status: ${words}`} title="Your status" disabled={!own} onClick={() => setOpen(true)}>
        <Avatar id={me.id} name={me.displayName} url={me.avatarUrl} small />
        {own && <span className="dot" data-status={own.setting}><Sign status={own.setting} /></span>}
      </button>
      <h1>{me.displayName} <StatusEmoji status={own?.customStatus} /></h1>
      {open && own && <StatusDialog own={own} close={() => setOpen(false)} />}
    </>
  );
}
