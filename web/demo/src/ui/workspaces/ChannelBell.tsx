import { useView } from "@confab/client/react";
import { useState } from "react";

import { Icon } from "../Icon";
import { useApp } from "../appContext";
import { ChannelNotifications } from "./ChannelNotifications";

/** In the header of a channel: shows whether it is muted, and opens its notification settings. */
export function ChannelBell({ id, name }: { id: string; name: string }) {
  const [open, setOpen] = useState(false);
  const session = useView(useApp().client.channel(id)).channel?.session ?? null;
  const label = session?.muteStatus ? "Notifications, muted" : "Notifications";
  return (
    <>
      <button className="icon" aria-label={label} title={label} onClick={() => setOpen(true)}><Icon name={session?.muteStatus ? "mute" : "bell"} /></button>
      {open && <ChannelNotifications id={id} name={name} session={session} close={() => setOpen(false)} />}
    </>
  );
}
