import type { Session } from "@confab/client";

import { LevelDialog } from "../notifications/LevelDialog";

const NOT_MUTED = { muteStatus: false, mutedUntil: null };

/** The notification level of a channel. session: null if the user has never opened it. */
export function ChannelNotifications({ id, name, session, close }: { id: string; name: string; session: Session | null; close: () => void }) {
  return <LevelDialog id={id} title={`#${name}`} level={session?.notifications ?? null} inherited={["As in the workspace", "No exception for this channel"]} muting={session ?? NOT_MUTED} close={close} />;
}
