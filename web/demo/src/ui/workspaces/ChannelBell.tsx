import { useState } from "react";

import { Icon } from "../Icon";
import { ChannelNotifications } from "./ChannelNotifications";
import { useWorkspace } from "./useWorkspace";

/** In the header of a channel: shows whether it is muted, and opens its notification settings. */
export function ChannelBell({ id, name, workspaceId }: { id: string; name: string; workspaceId: string }) {
  const [open, setOpen] = useState(false);
  const session = useWorkspace(workspaceId)?.channels.edges.find(({ node }) => node.id === id)?.node.session ?? null;
  const label = session?.muteStatus ? "Notifications, muted" : "Notifications";
  return (
    <>
      <button className="icon" aria-label={label} title={label} onClick={() => setOpen(true)}><Icon name={session?.muteStatus ? "mute" : "bell"} /></button>
      {open && <ChannelNotifications id={id} name={name} session={session} close={() => setOpen(false)} />}
    </>
  );
}
