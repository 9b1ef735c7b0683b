import type { User, Workspace } from "@confab/client";
import { useView } from "@confab/client/react";
import { useState, type ReactNode } from "react";

import { MarkChannelsReadDocument } from "../../gql";
import { Avatar } from "../Avatar";
import { plural } from "../format";
import { Icon } from "../Icon";
import { Menu } from "../Menu";
import { StatusEmojiOf } from "../presence/CustomStatus";
import { MemberActions } from "../moderation/MemberActions";
import { moderates, rightsFrom } from "../moderation/rights";
import { when } from "../moderation/format";
import { PresenceForScreenReaders } from "../presence/PresenceText";
import { useLatestUser } from "../presence/usePresence";
import { Profile } from "../presence/Profile";
import { pathTo, useRoute } from "../route";
import { useAttempt, useMutation } from "../useMutation";
import { ThreadsLink } from "../threads/ThreadsLink";
import { useApp } from "../appContext";
import { NewChannel } from "./NewChannel";
import { OnlineCount } from "./OnlineCount";
import { TextChannels } from "./TextChannels";
import { useMemberCounts } from "./useMemberCounts";
import { VoiceChannel } from "./VoiceChannel";
import { WorkspaceNotifications } from "./WorkspaceNotifications";

/** A workspace: how many are online, its channels, who is in which voice channel, and its members. */
export function WorkspacePane({ id }: { id: string }) {
  const { me, client } = useApp();
  const { status, workspace, channels: all } = useView(client.workspace(id));
  const counts = useMemberCounts(id) ?? workspace;
  const { moderation } = useRoute();
  const may = rightsFrom(workspace?.viewerPermissions);
  const mutate = useMutation();
  const attempt = useAttempt();
  const [dialog, setDialog] = useState<User | "notifications" | "channel" | null>(null);
  const openChannels = all.filter(({ isArchived }) => !isArchived);
  const voiceChannels = openChannels.filter(({ kind }) => kind === "VOICE");
  const textChannels = openChannels.filter(({ kind }) => kind !== "VOICE");
  const actions = [
    ...(openChannels.some(({ unreadCount }) => unreadCount > 0) ? [{ label: "Mark all as read", run: () => void mutate(MarkChannelsReadDocument, { workspaceId: id }) }] : []),
    { label: "Notifications…", run: () => setDialog("notifications") },
    ...(may("MANAGE_CHANNELS") ? [{ label: "New channel…", run: () => setDialog("channel") }] : []),
  ];
  return (
    <>
      <header>
        <a className="icon" href="#/" aria-label="Back to all sessions"><Icon name="back" /></a>
        <div className="about">
          <h1>{workspace?.name ?? ""}</h1>
          {workspace && counts && <p role="status"><OnlineCount count={counts.onlineCount}> · </OnlineCount>{plural(counts.memberCount, "member")}</p>}
        </div>
        {workspace && <Menu label="Workspace menu" items={actions} />}
      </header>
      {status === "loading" && <div className="skeletons" role="status" aria-label="Loading">{[1, 2, 3, 4].map((each) => <i key={each} />)}</div>}
      {status === "failed" && <p className="empty">There is no such workspace.</p>}
      {workspace && (
        <div className="workspace">
          <ThreadsLink />
          {moderates(may) && (
            <a className="moderation-link" href={pathTo({ workspaceId: id, moderation: true })} aria-current={moderation ? "page" : undefined}>
              <Icon name="shield" /> Moderation
            </a>
          )}
          <TextChannels workspaceId={id} channels={textChannels} />
          {!textChannels.length && (
            <div className="empty">
              <b>No channels yet</b>
              {may("MANAGE_CHANNELS") ? (
                <><p>A channel is a place to write for all members, or for some of them.</p><button className="button" onClick={() => setDialog("channel")}>Create a channel</button></>
              ) : (
                <p>You see channels here when somebody has created one. Until then you can write to the members below.</p>
              )}
            </div>
          )}
          <section aria-labelledby="voice-heading">
            <h2 id="voice-heading">Voice channels</h2>
            {voiceChannels.map((channel) => <VoiceChannel key={channel.id} channel={channel} show={setDialog} />)}
            {!voiceChannels.length && <p className="hint">No voice channels yet.</p>}
          </section>
          <section aria-labelledby="members-heading">
            <h2 id="members-heading">Members</h2>
            <ul className="people-list" aria-label="Members">
              {workspace.members?.edges.map(({ node }) => (
                <Member key={node.user.id} member={node} show={setDialog}>
                  {(user, timedOut) => user.id !== me && user.id !== workspace.owner.id && <MemberActions workspaceId={id} user={user} timedOut={timedOut} may={may} changed={() => void attempt(client.reloadWorkspaces())} />}
                </Member>
              ))}
            </ul>
          </section>
        </div>
      )}
      {dialog === "notifications" && workspace && <WorkspaceNotifications id={id} name={workspace.name} close={() => setDialog(null)} />}
      {dialog === "channel" && <NewChannel workspaceId={id} close={() => setDialog(null)} />}
      {dialog && typeof dialog === "object" && <Profile user={dialog} close={() => setDialog(null)} />}
    </>
  );
}

type MemberParts = NonNullable<Workspace["members"]>["edges"][number]["node"];

interface MemberProps {
  member: MemberParts;
  show: (user: User) => void;
  children: (user: User, timedOut: boolean) => ReactNode;
}

function Member({ member: { user: loaded, nickname, roles, timedOutUntil }, show, children }: MemberProps) {
  const user = useLatestUser(loaded);
  const timedOut = timedOutUntil !== null && timedOutUntil !== undefined && Date.parse(timedOutUntil) > Date.now();
  const role = roles.find(({ isHoisted }) => isHoisted) ?? roles[0];
  return (
    <li>
      <button onClick={() => show(user)}>
        <Avatar id={user.id} name={user.displayName} url={user.avatarUrl} small live={!user.isBot} />
        <span className="name">{nickname ?? user.displayName}<PresenceForScreenReaders userId={user.id} /></span>
        <StatusEmojiOf userId={user.id} />
        {timedOut && <span className="tag warn" title={`Until ${when(timedOutUntil)}`}>Timed out</span>}
        {user.isBot ? <span className="tag">Bot</span> : role && roles.length > 0 && <small>{role.name.replace("@", "")}</small>}
      </button>
      {children(user, timedOut)}
    </li>
  );
}
