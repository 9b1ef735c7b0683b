import type { Thread, User } from "@confab/client";

import { Avatar } from "../Avatar";
import { relativeTime } from "../format";
import { Icon } from "../Icon";
import { useEveryMinute, useLatestUser } from "../presence/usePresence";
import { replies } from "./format";

interface Props {
  thread: Thread;
  open: () => void;
}

/** Below a message: who replied in its thread, how often, and when last. Nothing if all replies were recalled. */
export function ThreadLine({ thread: { replyCount, participants, lastReplyAt }, open }: Props) {
  useEveryMinute();
  if (!replyCount) return null;
  return (
    <button className="thread-line" onClick={open}>
      <span className="faces">
        {participants.map((each) => <Face key={each.id} user={each} />)}
      </span>
      <b>{replies(replyCount)}</b>
      {lastReplyAt && <span className="last-reply">Last reply {relativeTime(lastReplyAt)}</span>}
    </button>
  );
}

function Face({ user }: { user: User }) {
  const { id, displayName, avatarUrl } = useLatestUser(user);
  return <Avatar id={id} name={displayName} url={avatarUrl} small />;
}

/** Above a reply that is shown in the conversation too. */
export const ThreadOrigin = ({ open }: Pick<Props, "open">) => (
  <button className="thread-origin" onClick={open}><Icon name="thread" /> Replied in a thread</button>
);
