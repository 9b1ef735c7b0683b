import { Icon } from "../Icon";
import { pathTo, useRoute } from "../route";
import { useUnreadReplies } from "./useFollowedThreads";
import { unreadReplies } from "./format";

/** In the list: opens the followed threads, and says how many replies are unread. */
export function ThreadsLink() {
  const { workspaceId, threads } = useRoute();
  const unread = useUnreadReplies();
  return (
    <a className={unread ? "threads-link unread" : "threads-link"} href={pathTo({ workspaceId, threads: true })} aria-current={threads ? "page" : undefined}>
      <Icon name="thread" />
      <span className="name">Threads</span>
      {unread > 0 && <span className="badge"><span aria-hidden="true">{unread}</span><span className="sr-only">, {unreadReplies(unread)}</span></span>}
    </a>
  );
}
