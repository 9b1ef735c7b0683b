import { useView } from "@confab/client/react";

import { Icon } from "../Icon";
import { useAttempt } from "../useMutation";
import { useApp } from "../appContext";

/** The voice channel that this device has joined, wherever the user is, with its buttons. */
export function VoiceBar() {
  const channelId = useView(useApp().client.voiceChannelId);
  return channelId ? <Joined key={channelId} channelId={channelId} /> : null;
}

function Joined({ channelId }: { channelId: string }) {
  const { me, client } = useApp();
  const attempt = useAttempt();
  const { channel } = useView(client.channel(channelId));
  const workspace = useView(client.workspaces).find(({ id }) => id === channel?.workspace.id);
  const state = channel?.voiceStates.find(({ user }) => user.id === me);
  if (!channel || !workspace || !state) return null;
  const { mute, selfMute, selfDeaf } = state;
  return (
    <section className="voice-bar" aria-label="Voice">
      <a href={`#/w/${workspace.id}`}>
        <b>{channel.name}</b>
        <small>{mute ? "Muted by a moderator" : `In voice · ${workspace.name}`}</small>
      </a>
      <button className="icon" aria-label={selfMute ? "Unmute" : "Mute"} aria-pressed={selfMute} onClick={() => void attempt(client.updateVoice({ selfMute: !selfMute }))}>
        <Icon name={selfMute ? "mic-off" : "mic"} />
      </button>
      <button className="icon" aria-label={selfDeaf ? "Undeafen" : "Deafen"} aria-pressed={selfDeaf} onClick={() => void attempt(client.updateVoice({ selfDeaf: !selfDeaf }))}>
        <Icon name={selfDeaf ? "headphones-off" : "headphones"} />
      </button>
      <button className="icon leave" aria-label="Leave voice" onClick={() => void attempt(client.leaveVoice())}><Icon name="exit" /></button>
    </section>
  );
}
