import { useState } from "react";

import type { UserPartsFragment } from "../../gql";
import { Avatar } from "../Avatar";
import { plural } from "../format";
import { Icon } from "../Icon";
import { StatusEmojiOf } from "../presence/CustomStatus";
import { SaidPresence } from "../presence/PresenceWords";
import { Profile } from "../presence/Profile";
import { useWorkspace } from "./useWorkspace";
import { VoiceChannel } from "./VoiceChannel";

/** A workspace: how many are online, who is in which voice channel, and its members. */
export function WorkspacePane({ id }: { id: string }) {
  const view = useWorkspace(id);
  const [asked, setAsked] = useState<UserPartsFragment | null>(null);
  const channels = view?.channels.edges.map(({ node }) => node).filter(({ kind, isArchived }) => kind === "VOICE" && !isArchived) ?? [];
  return (
    <>
      <header>
        <a className="icon" href="#/" aria-label="Back to all sessions"><Icon name="back" /></a>
        <div className="about">
          <h1>{view?.name ?? ""}</h1>
          {view && <p role="status"><i className="online-sign" aria-hidden="true" /> {view.onlineCount} online · {plural(view.memberCount, "member")}</p>}
        </div>
      </header>
      {view === undefined && <div className="skeletons" role="status" aria-label="Loading">{[1, 2, 3, 4].map((each) => <i key={each} />)}</div>}
      {view === null && <p className="empty">There is no such workspace.</p>}
      {view && (
        <div className="workspace">
          <section aria-labelledby="voice-heading">
            <h2 id="voice-heading">Voice channels</h2>
            {channels.map((channel) => <VoiceChannel key={channel.id} workspaceId={id} channel={channel} voice={view.voice} show={setAsked} />)}
            {!channels.length && <p className="hint">No voice channels yet.</p>}
          </section>
          <section aria-labelledby="members-heading">
            <h2 id="members-heading">Members</h2>
            <ul className="people-list" aria-label="Members">
              {view.members?.edges.map(({ node: { user, nickname, roles } }) => {
                const role = roles.find(({ isHoisted }) => isHoisted) ?? roles[0];
                return (
                  <li key={user.id}>
                    <button onClick={() => setAsked(user)}>
                      <Avatar id={user.id} name={user.displayName} url={user.avatarUrl} small live={!user.isBot} />
                      <span className="name">{nickname ?? user.displayName}<SaidPresence userId={user.id} /></span>
                      <StatusEmojiOf userId={user.id} />
                      {user.isBot ? <span className="tag">Bot</span> : role && roles.length > 0 && <small>{role.name.replace("@", "")}</small>}
                    </button>
                  </li>
                );
              })}
            </ul>
          </section>
        </div>
      )}
      {asked && <Profile user={asked} close={() => setAsked(null)} />}
    </>
  );
}
