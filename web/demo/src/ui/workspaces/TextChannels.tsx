import { unreadIn, type ChannelView } from "../../confab/workspaces";
import { MarkChannelsReadDocument } from "../../gql";
import { plural } from "../format";
import { Menu } from "../Menu";
import { useMute } from "../notifications/LevelDialog";
import { useRoute } from "../route";
import { useDo } from "../useDo";
import { useWorld } from "../world";
import { ChannelRow } from "./ChannelRow";

interface Category {
  id: string | null;
  name: string;
  channels: ChannelView[];
}

/** The text channels by category, with what is unread in each. */
export function TextChannels({ workspaceId, channels }: { workspaceId: string; channels: readonly ChannelView[] }) {
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
  const run = useDo();
  const mute = useMute();
  const { offerUndo } = useWorld();
  const isMuted = channels.every(({ session }) => session?.muteStatus);
  const muteAll = async () => {
    const changed: ChannelView[] = [];
    for (const channel of channels) {
      if ((channel.session?.muteStatus ?? false) === !isMuted) continue;
      if (!(await mute(channel.id, { muted: !isMuted, until: null }))) break;
      changed.push(channel);
    }
    const undo = async () => {
      for (const { id, session } of changed) if (!(await mute(id, { muted: isMuted, until: session?.mutedUntil ?? null }))) break;
    };
    if (changed.length) offerUndo({ said: `${plural(changed.length, "channel")} ${isMuted ? "unmuted" : "muted"}`, undo: () => void undo() });
  };
  const items = [
    ...(channels.some(unreadIn) ? [{ label: "Mark as read", run: () => void run(MarkChannelsReadDocument, { workspaceId, categoryId: id }) }] : []),
    { label: isMuted ? "Unmute all channels" : "Mute all channels", run: () => void muteAll() },
  ];
  return <Menu label={`Actions for ${name}`} items={items} />;
}

/** Channels without a category come first. */
function categoriesOf(channels: readonly ChannelView[]): Category[] {
  const sorted = [...channels].sort((a, b) => (a.category?.position ?? -1) - (b.category?.position ?? -1) || a.position - b.position);
  const categories: Category[] = [];
  for (const channel of sorted) {
    const { id = null, name = "Channels" } = channel.category ?? {};
    if (categories.at(-1)?.id !== id || !categories.length) categories.push({ id, name, channels: [] });
    categories.at(-1)!.channels.push(channel);
  }
  return categories;
}
