import { useArchiving } from "./useArchiving";

interface Props {
  channel: { id: string; name: string; isArchived: boolean };
  mayManage: boolean;
}

/** In place of the composer, where the user may not write. */
export function FrozenChannel({ channel, mayManage }: Props) {
  const archive = useArchiving();
  if (!channel.isArchived) return <p className="frozen">You may not write in this channel.</p>;
  return <p className="frozen">This channel is archived. {mayManage && <button className="link" onClick={() => void archive(channel, false)}>Open it again</button>}</p>;
}
