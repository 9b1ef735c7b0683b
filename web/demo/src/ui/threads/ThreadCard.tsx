import type { MouseEvent } from "react";

import type { PreviewPartsFragment } from "../../gql";
import { Avatar } from "../Avatar";
import { useIsBlocked } from "../blocking/useBlocks";
import { timeOrDay, textOf } from "../format";
import { Menu } from "../Menu";
import { useLatestUser } from "../presence/usePresence";
import { go, pathTo } from "../route";
import { useApp } from "../appContext";
import { useLatestReplies, type FollowedThread } from "./useFollowedThreads";
import { useConversationName } from "./useParentConversation";
import { moreReplies, replies } from "./format";

interface Props {
  session: FollowedThread;
  markRead: () => void;
  unfollow: () => void;
}

/** A followed thread: where it is, the message that it belongs to, and its latest replies. */
export function ThreadCard({ session, markRead, unfollow }: Props) {
  const { conversation: thread, unreadCount } = session;
  const { parent, replyCount } = thread;
  const { name, workspaceId, workspaceName } = useConversationName(parent.conversationId);
  const latest = useLatestReplies(session);
  const route = { workspaceId, conversationId: thread.id };
  const hidden = latest && replyCount - latest.filter(({ state }) => state === "NORMAL").length;
  // The address alone does not say where "back" leads.
  const open = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(route, { isFromThreads: true });
  };
  return (
    <li className={unreadCount ? "thread-card unread" : "thread-card"}>
      <div className="card-head">
        <h3>
          <a className="open-thread" href={pathTo(route)} onClick={open}>
            {name || "…"}<span className="sr-only"> {thread.title}{unreadCount ? `, ${unreadCount} unread` : ""}</span>
          </a>
        </h3>
        <span className="where">{workspaceName}</span>
        {unreadCount > 0 && <span className="badge" aria-hidden="true">{unreadCount}</span>}
        <Menu
          label={`Actions for thread: ${thread.title}`}
          items={[...(unreadCount ? [{ label: "Mark as read", run: markRead }] : []), { label: "Unfollow thread", run: unfollow }]}
        />
      </div>
      <Excerpt message={parent} isParent />
      {latest === undefined ? (
        <p className="more-replies">{replies(replyCount)}</p>
      ) : (
        <>
          {hidden! > 0 && <p className="more-replies">{moreReplies(hidden!)}</p>}
          {latest.map((message, index) => <Excerpt key={message.id} message={message} isNew={unreadCount > 0 && index >= latest.length - unreadCount} />)}
        </>
      )}
    </li>
  );
}

type Excerpted = Pick<PreviewPartsFragment, "sender" | "content" | "state" | "attachments" | "createdAt">;

function Excerpt({ message, isParent = false, isNew = false }: { message: Excerpted; isParent?: boolean; isNew?: boolean }) {
  const { me } = useApp();
  const sender = useLatestUser(message.sender);
  const { createdAt } = message;
  const isBlocked = useIsBlocked(sender.id);
  return (
    <div className={["excerpt-of", isParent ? "parent" : "", isNew ? "new" : ""].join(" ")}>
      <Avatar id={sender.id} name={sender.displayName} url={sender.avatarUrl} small />
      <p>
        <b>{sender.id === me ? "You" : sender.displayName}</b> <time dateTime={createdAt}>{timeOrDay(createdAt)}</time>
        <span className={message.state === "RECALLED" || isBlocked ? "excerpt-text plain" : "excerpt-text"} dir="auto">{isBlocked ? "Message from a person you have blocked" : textOf(message)}</span>
      </p>
    </div>
  );
}
