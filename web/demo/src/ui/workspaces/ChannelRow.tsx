import { useState } from "react";

import { unreadIn, type ChannelView } from "../../confab/workspaces";
import { FollowChannelDocument, MarkReadDocument, SetUnreadDocument } from "../../gql";
import { plural } from "../format";
import { Icon } from "../Icon";
import { Menu, type MenuItem } from "../Menu";
import { rightsFrom } from "../moderation/rights";
import { useMute } from "../notifications/LevelDialog";
import { pathTo } from "../route";
import { useDo } from "../useDo";
import { useWorld } from "../world";
import { ChannelNotifications } from "./ChannelNotifications";
import { useArchiving } from "./useArchiving";

const HOUR_MS = 3_600_000;

/** A text channel with what is unread there, and the user's settings of it. */
export function ChannelRow({ workspaceId, channel, current }: { workspaceId: string; channel: ChannelView; current: boolean }) {
  const [asked, setAsked] = useState(false);
  const { id, name, topic, session } = channel;
  const unread = unreadIn(channel);
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
      <Menu label={`Actions for ${name}`} icon="down" items={useActions(channel, unread, muted, () => setAsked(true))} />
      {asked && <ChannelNotifications id={id} name={name} session={session ?? null} close={() => setAsked(false)} />}
    </li>
  );
}

function useActions({ id, name, kind, session, viewerFollows, viewerPermissions }: ChannelView, unread: number, muted: boolean, ask: () => void): MenuItem[] {
  const run = useDo();
  const mute = useMute();
  const archive = useArchiving();
  const { workspaces, offerUndo } = useWorld();
  const item = (label: string, run: () => void, when: boolean): MenuItem[] => (when ? [{ label, run }] : []);
  const read = async () => {
    const answer = await run(MarkReadDocument, { conversationId: id });
    if (answer) workspaces.noteSession(id, answer.markRead);
  };
  const markUnread = async () => {
    const answer = await run(SetUnreadDocument, { conversationId: id });
    if (answer) workspaces.noteSession(id, answer.setUnread);
  };
  const change = async (muted: boolean, until: string | null = null) => {
    const before = { muted: session?.muteStatus ?? false, until: session?.mutedUntil ?? null };
    if (await mute(id, { muted, until })) offerUndo({ said: `#${name} ${muted ? "muted" : "unmuted"}${until ? " for an hour" : ""}`, undo: () => void mute(id, before) });
  };
  const follow = async (follow: boolean, isUndo = false) => {
    const answer = await run(FollowChannelDocument, { id, follow });
    if (!answer) return;
    workspaces.noteFollowing(answer.followChannel);
    if (!isUndo) offerUndo({ said: follow ? `You follow #${name}` : `You no longer follow #${name}`, undo: () => void followAgain(!follow) });
  };
  const followAgain = (wanted: boolean) => follow(wanted, true);
  return [
    ...item("Mark as read", () => void read(), unread > 0 || !!session?.unreadStatus),
    ...item("Mark as unread", () => void markUnread(), !unread && !session?.unreadStatus),
    ...item("Mute", () => void change(true), !muted),
    ...item("Mute for an hour", () => void change(true, new Date(Date.now() + HOUR_MS).toISOString()), !muted),
    ...item("Unmute", () => void change(false), muted),
    ...item("Notifications…", ask, true),
    ...item("Follow", () => void follow(true), !viewerFollows),
    // Unfollowing a private channel leaves it. To come back, the user needs an invitation.
    ...item("Unfollow", () => void follow(false), viewerFollows && kind === "PUBLIC"),
    ...item("Archive", () => void archive({ id, name }, true), rightsFrom(viewerPermissions)("MANAGE_CHANNELS")),
  ];
}
