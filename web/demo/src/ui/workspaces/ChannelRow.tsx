import type { Channel } from "@confab/client";
import { useState } from "react";

import { plural } from "../format";
import { Icon } from "../Icon";
import { Menu, type MenuItem } from "../Menu";
import { rightsFrom } from "../moderation/rights";
import { useMute } from "../notifications/LevelDialog";
import { pathTo } from "../route";
import { useAttempt } from "../useMutation";
import { useApp } from "../appContext";
import { ChannelNotifications } from "./ChannelNotifications";
import { useArchiveChannel } from "./useArchiveChannel";

const HOUR_MS = 3_600_000;

/** A text channel with what is unread there, and the user's settings of it. */
export function ChannelRow({ workspaceId, channel, current }: { workspaceId: string; channel: Channel; current: boolean }) {
  const [dialog, setDialog] = useState(false);
  const { id, name, topic, session, unreadCount: unread } = channel;
  const muted = session?.muteStatus ?? false;
  return (
    <li>
      <a
        href={pathTo({ workspaceId, conversationId: id })}
        aria-current={current ? "page" : undefined}
        className={muted ? "muted" : unread ? "unread" : undefined}
        title={topic ?? undefined}
      >
        <Icon name="hash" />
        <span className="name">{name}</span>
        {muted && <span className="mute-sign" role="img" aria-label="muted"><Icon name="mute" /></span>}
        {unread > 0 && <span className={muted ? "badge muted" : "badge"} aria-label={plural(unread, "unread message")}>{unread}</span>}
        {!unread && session?.unreadStatus && <span className="badge unread" role="img" aria-label="marked as unread" />}
      </a>
      <Menu label={`Actions for ${name}`} icon="down" items={useActions(channel, () => setDialog(true))} />
      {dialog && <ChannelNotifications id={id} name={name} session={session} close={() => setDialog(false)} />}
    </li>
  );
}

function useActions({ id, name, kind, session, unreadCount, viewerFollows, viewerPermissions }: Channel, ask: () => void): MenuItem[] {
  const attempt = useAttempt();
  const mute = useMute();
  const archive = useArchiveChannel();
  const { client, offerUndo } = useApp();
  const isMuted = session?.muteStatus ?? false;
  const item = (label: string, run: () => void, when: boolean): MenuItem[] => (when ? [{ label, run }] : []);
  const change = async (muted: boolean, until: string | null = null) => {
    const before = { muted: isMuted, until: session?.mutedUntil ?? null };
    if (await mute(id, { muted, until })) offerUndo({ message: `#${name} ${muted ? "muted" : "unmuted"}${until ? " for an hour" : ""}`, undo: () => void mute(id, before) });
  };
  const follow = async (follow: boolean) => {
    if ((await attempt(client.followChannel(id, follow))) === null) return;
    offerUndo({ message: follow ? `You follow #${name}` : `You no longer follow #${name}`, undo: () => void attempt(client.followChannel(id, !follow)) });
  };
  return [
    ...item("Mark as read", () => void attempt(client.markRead(id)), unreadCount > 0 || !!session?.unreadStatus),
    ...item("Mark as unread", () => void attempt(client.markUnread(id)), !unreadCount && !session?.unreadStatus),
    ...item("Mute", () => void change(true), !isMuted),
    ...item("Mute for an hour", () => void change(true, new Date(client.api.now() + HOUR_MS).toISOString()), !isMuted),
    ...item("Unmute", () => void change(false), isMuted),
    ...item("Notifications…", ask, true),
    ...item("Follow", () => void follow(true), !viewerFollows),
    // Unfollowing a private channel leaves it. To join again, the user needs an invitation.
    ...item("Unfollow", () => void follow(false), viewerFollows && kind === "PUBLIC"),
    ...item("Archive", () => void archive({ id, name }, true), rightsFrom(viewerPermissions)("MANAGE_CHANNELS")),
  ];
}
