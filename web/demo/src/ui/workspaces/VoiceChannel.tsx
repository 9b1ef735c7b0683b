import type { Channel, User } from "@confab/client";
import { useView } from "@confab/client/react";
import { useState } from "react";

import { ModerateVoiceDocument } from "../../gql";
import { Avatar } from "../Avatar";
import { Icon } from "../Icon";
import { Menu, type MenuItem } from "../Menu";
import { useLatestUser } from "../presence/usePresence";
import { useAttempt, useMutation } from "../useMutation";
import { useApp } from "../appContext";

interface Props {
  channel: Channel;
  show: (user: User) => void;
}

/** A voice channel with the people in it, a button to join, and what a moderator may do with each of them. */
export function VoiceChannel({ channel, show }: Props) {
  const { me, client, showToast } = useApp();
  const attempt = useAttempt();
  const [busy, setBusy] = useState(false);
  const here = useView(client.voiceChannelId) === channel.id;
  const states = [...channel.voiceStates].sort((a, b) => a.joinedAt.localeCompare(b.joinedAt));
  const mayJoin = channel.viewerPermissions.includes("CONNECT");
  const join = async () => {
    setBusy(true);
    const joined = await attempt(client.joinVoice(channel.id));
    setBusy(false);
    if (joined?.url) showToast("You are in the channel. Sound needs a media client (LiveKit), which this demo does not have.");
  };
  return (
    <div className={here ? "voice-channel here" : "voice-channel"} role="group" aria-label={channel.name}>
      <div className="voice-head">
        <Icon name="speaker" />
        <h3>{channel.name}</h3>
        {here ? (
          <button className="voice-button leave" onClick={() => void attempt(client.leaveVoice())}>Leave</button>
        ) : (
          mayJoin && <button className="voice-button" disabled={busy} onClick={() => void join()}>Join</button>
        )}
      </div>
      <ul aria-label={`In ${channel.name}`}>
        {states.map((state) => <InVoice key={state.user.id} state={state} own={state.user.id === me} rights={channel.viewerPermissions} show={show} />)}
      </ul>
    </div>
  );
}

function InVoice({ state, own, rights, show }: { state: Channel["voiceStates"][number]; own: boolean; rights: readonly string[]; show: Props["show"] }) {
  const mutate = useMutation();
  const user = useLatestUser(state.user);
  const { channelId } = state;
  const moderate = (change: { mute?: boolean; deaf?: boolean; disconnect?: boolean }) => () => void mutate(ModerateVoiceDocument, { channelId, userId: user.id, ...change });
  const may = (right: string) => rights.includes(right) || rights.includes("ADMINISTRATOR");
  const items: MenuItem[] = [
    ...(may("MUTE_OTHERS") ? [{ label: state.mute ? "Unmute" : "Mute", run: moderate({ mute: !state.mute }) }] : []),
    ...(may("DEAFEN_OTHERS") ? [{ label: state.deaf ? "Undeafen" : "Deafen", run: moderate({ deaf: !state.deaf }) }] : []),
    ...(may("MOVE_OTHERS") ? [{ label: "Disconnect", danger: true, run: moderate({ disconnect: true }) }] : []),
  ];
  const silent = state.mute ? "Muted by a moderator" : state.selfMute ? "Muted" : null;
  const deaf = state.deaf ? "Deafened by a moderator" : state.selfDeaf ? "Deafened" : null;
  return (
    <li>
      <button className="in-voice" onClick={() => show(user)}>
        <Avatar id={user.id} name={user.displayName} url={user.avatarUrl} small live={!own} />
        <span className="name">{own ? "You" : user.displayName}</span>
        {silent && <span className={state.mute ? "voice-sign by-others" : "voice-sign"} role="img" aria-label={silent} title={silent}><Icon name="mic-off" /></span>}
        {deaf && <span className={state.deaf ? "voice-sign by-others" : "voice-sign"} role="img" aria-label={deaf} title={deaf}><Icon name="headphones-off" /></span>}
      </button>
      {!own && items.length > 0 && <Menu label={`Actions for ${user.displayName}`} items={items} />}
    </li>
  );
}
