import { useArchiveChannel } from "./useArchiveChannel";

interface Props {
  channel: { id: string; name: string; isArchived: boolean };
  mayManage: boolean;
}

/** In place of the composer, where the user may not write. */
export function ReadOnlyChannel({ channel, mayManage }: Props) {
  const archive = useArchiveChannel();
  if (!channel.isArchived) return <p className="read-only">You may not write in this channel.</p>;
  return <p className="read-only">This channel is archived. {mayManage && <button className="link" onClick={() => void archive(channel, false)}>Open it again</button>}</p>;
}
