import { UpdateVoiceDocument } from "../../gql";
import { ON_SOCKET } from "../../confab/client";
import { Icon } from "../Icon";
import { useWorld } from "../world";
import { useJoined } from "./useWorkspace";

/** The voice channel that this device has joined, wherever the user is, with its buttons. */
export function VoiceBar() {
  const { me, client, workspaces, tell } = useWorld();
  const { joined, view } = useJoined();
  const state = view?.voice.get(me);
  const channel = view?.channels.edges.find(({ node }) => node.id === joined?.channelId)?.node;
  if (!joined || !state || !channel) return null;
  const update = async (change: { selfMute?: boolean; selfDeaf?: boolean }) => {
    const { error } = await client.mutation(UpdateVoiceDocument, change, ON_SOCKET).toPromise();
    if (error) tell(error.graphQLErrors[0]?.message ?? "This needs the network. Try again when you are online.");
  };
  return (
    <section className="voice-bar" aria-label="Voice">
      <a href={`#/w/${joined.workspaceId}`}>
        <b>{channel.name}</b>
        <small>{state.mute ? "Muted by a moderator" : `In voice · ${view!.name}`}</small>
      </a>
      <button className="icon" aria-label={state.selfMute ? "Unmute" : "Mute"} aria-pressed={state.selfMute} onClick={() => void update({ selfMute: !state.selfMute })}>
        <Icon name={state.selfMute ? "mic-off" : "mic"} />
      </button>
      <button className="icon" aria-label={state.selfDeaf ? "Undeafen" : "Deafen"} aria-pressed={state.selfDeaf} onClick={() => void update({ selfDeaf: !state.selfDeaf })}>
        <Icon name={state.selfDeaf ? "headphones-off" : "headphones"} />
      </button>
      <button className="icon leave" aria-label="Leave voice" onClick={() => void workspaces.leave()}><Icon name="exit" /></button>
    </section>
  );
}
