import type { Channel } from "@confab/client";

import { MarkChannelsReadDocument } from "../../gql";
import { plural } from "../format";
import { Menu } from "../Menu";
import { useMute } from "../notifications/LevelDialog";
import { useRoute } from "../route";
import { useMutation } from "../useMutation";
import { useApp } from "../appContext";
import { ChannelRow } from "./ChannelRow";

interface Category {
  id: string | null;
  name: string;
  channels: Channel[];
}

/** The text channels by category, with what is unread in each. */
export function TextChannels({ workspaceId, channels }: { workspaceId: string; channels: readonly Channel[] }) {
  const { conversationId } = useRoute();
  return categoriesOf(channels).map((category) => (
    <section key={category.id} aria-label={category.name}>
      <div className="category-head">
        <h2>{category.name}</h2>
        {category.id && <CategoryMenu workspaceId={workspaceId} category={category} />}
      </div>
      <ul className="text-channels">
        {category.channels.map((channel) => <ChannelRow key={channel.id} workspaceId={workspaceId} channel={channel} current={channel.id === conversationId} />)}
      </ul>
    </section>
  ));
}

/** A category has no settings of its own: each choice here applies to all of its channels. */
function CategoryMenu({ workspaceId, category: { id, name, channels } }: { workspaceId: string; category: Category }) {
  const mutate = useMutation();
  const mute = useMute();
  const { offerUndo } = useApp();
  const isMuted = channels.every(({ session }) => session?.muteStatus);
  const muteAll = async () => {
    const changed: Channel[] = [];
    for (const channel of channels) {
      if ((channel.session?.muteStatus ?? false) === !isMuted) continue;
      if (!(await mute(channel.id, { muted: !isMuted, until: null }))) break;
      changed.push(channel);
    }
    const undo = async () => {
      for (const { id, session } of changed) if (!(await mute(id, { muted: isMuted, until: session?.mutedUntil ?? null }))) break;
    };
    if (changed.length) offerUndo({ message: `${plural(changed.length, "channel")} ${isMuted ? "unmuted" : "muted"}`, undo: () => void undo() });
  };
  const items = [
    ...(channels.some(({ unreadCount }) => unreadCount > 0) ? [{ label: "Mark as read", run: () => void mutate(MarkChannelsReadDocument, { workspaceId, categoryId: id }) }] : []),
    { label: isMuted ? "Unmute all channels" : "Mute all channels", run: () => void muteAll() },
  ];
  return <Menu label={`Actions for ${name}`} items={items} />;
}

/** Channels in the order of the client: those without a category come first. */
function categoriesOf(channels: readonly Channel[]): Category[] {
  const categories: Category[] = [];
  for (const channel of channels) {
    const { id = null, name = "Channels" } = channel.category ?? {};
    if (categories.at(-1)?.id !== id || !categories.length) categories.push({ id, name, channels: [] });
    categories.at(-1)!.channels.push(channel);
  }
  return categories;
}
