import { useEffect, useLayoutEffect, useRef, useState } from "react";

import { useFileDrop } from "../files/useFiles";
import { day, textOf } from "../format";
import { Icon } from "../Icon";
import { Menu } from "../Menu";
import { Bubble } from "../messages/Bubble";
import { MessageActionsProvider } from "../messages/messageActions";
import { MessageList } from "../messages/MessageList";
import { useMessagePane } from "../messages/useMessagePane";
import type { Target } from "../messages/useTarget";
import { useLatestUser } from "../presence/usePresence";
import { closeThread, go, pathTo, useEntry } from "../route";
import { statusOf } from "../Ticks";
import { useTypingText, useApp } from "../appContext";
import { ThreadComposer } from "./ThreadComposer";
import { useParentConversation, useConversationName } from "./useParentConversation";
import { useThread } from "./useThread";
import { replies } from "./format";

interface Props {
  conversationId: string;
  /** The message that the thread belongs to. */
  threadSeq: number;
  /** The reply to show. */
  seq: number | null;
  workspaceId: string | null;
  subBiz: string | null;
}

const MEASURED_AFTER_FRAMES = 10;

/** A thread next to its conversation, or over it on a narrow screen. */
export function ThreadPanel({ conversationId, threadSeq, seq, workspaceId, subBiz }: Props) {
  const { me } = useApp();
  const { id, thread, parent, session, history, isLoading, isFollowed, follow, lock } = useThread(conversationId, threadSeq);
  const conversation = useParentConversation(conversationId, parent, thread);
  const { name } = useConversationName(conversationId);
  const typing = useTypingText(id);
  const [beginning] = useState<Target | null>(seq === null ? null : { seq });
  const pane = useMessagePane({ conversationId: id, history, read: session, seq, beginning, isThread: true });
  const author = useLatestUser(parent?.sender);
  const mayWrite = !!parent && conversation.refusal === null && !pane.isRefused;
  const drop = useFileDrop(id, mayWrite && !pane.isEditing);
  const panel = useRef<HTMLElement>(null);
  const [opener] = useState(() => document.activeElement as HTMLElement | null);

  // The panel makes the conversation narrower. Its rows are measured again in the next frames, which moves the message.
  useLayoutEffect(() => {
    const article = opener?.closest("main.conversation article");
    let frame = 0;
    const keepInView = (frames: number) => {
      article?.scrollIntoView({ block: "nearest" });
      if (article && frames) frame = requestAnimationFrame(() => keepInView(frames - 1));
    };
    keepInView(MEASURED_AFTER_FRAMES);
    return () => cancelAnimationFrame(frame);
  }, []);
  // On devices with a keyboard, the composer takes the focus as soon as it is displayed.
  useEffect(() => {
    if (!panel.current!.contains(document.activeElement)) panel.current!.focus();
  }, []);

  /** The focus returns to where it was, or to the message. */
  const close = () => {
    closeThread();
    setTimeout(() => {
      const isUsable = opener?.isConnected && opener !== document.body;
      (isUsable ? opener : document.querySelector<HTMLElement>(`main.conversation [data-seq="${threadSeq}"]`))?.focus();
    });
  };

  const firstReply = pane.messages[0];
  // Seqs of replies begin at 1. The parent message's own seq belongs to its conversation.
  const top = parent && (
    <div className={firstReply && day(firstReply.createdAt) === day(parent.createdAt) ? "thread-parent same-day" : "thread-parent"}>
      <Bubble message={{ ...parent, seq: 0 }} showsSenders follows={false} isHighlighted={false} status={statusOf(parent, conversation.session)} setSize={-1} isTabStop />
      {!!thread?.replyCount && <p className="reply-count"><span>{replies(thread.replyCount)}</span></p>}
    </div>
  );

  return (
    <aside
      ref={panel}
      className={drop.over ? "conversation thread-panel dropping" : "conversation thread-panel"}
      aria-label="Thread"
      tabIndex={-1}
      {...drop.on}
      onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), close())}
    >
      <header>
        <BackFromThread workspaceId={workspaceId} close={close} />
        <div className="about">
          <h2>Thread</h2>
          <p>{typing ? <span className="typing">{typing}</span> : <a href={pathTo({ workspaceId, subBiz, conversationId, seq: threadSeq })} title="Show the message in the conversation">{name}</a>}</p>
        </div>
        {thread && !pane.isRefused && (
          <button className="follow" aria-pressed={isFollowed} title={isFollowed ? "You get new replies. Click to unfollow." : "Get new replies"} onClick={() => void follow(!isFollowed)}>
            {isFollowed ? "Following" : "Follow"}
          </button>
        )}
        {thread && conversation.mayLock && <Menu label="Actions for thread" items={[{ label: thread.isLocked ? "Unlock thread" : "Lock thread", run: () => void lock(!thread.isLocked) }]} />}
        <button className="icon close-thread" aria-label="Close thread" title="Close" onClick={close}><Icon name="close" /></button>
      </header>
      {pane.isRefused || (!parent && !isLoading) ? (
        <p className="empty">There is no such thread, or you cannot see it any more.</p>
      ) : (
        <MessageActionsProvider pane={pane} rights={{ mayReact: mayWrite, mayWrite }}>
          {pane.list.loadOlder && parent && author && (
            <button className="parent-line" title="To the beginning of the thread" onClick={() => pane.jump(1)}>
              <b>{author.id === me ? "You" : author.displayName}</b> {textOf(parent)}
            </button>
          )}
          <MessageList {...pane.list} receipts={null} unread={undefined} showsSenders label="Replies" empty="No replies yet." top={top} />
          {conversation.refusal !== null ? (
            <p className="read-only">{conversation.refusal}</p>
          ) : (
            parent && <ThreadComposer {...pane.composer} parent={parent} conversation={conversation} conversationName={name} />
          )}
        </MessageActionsProvider>
      )}
    </aside>
  );
}

/** On phones: leads back to the view from which the thread was opened. */
function BackFromThread({ workspaceId, close }: { workspaceId: string | null; close: () => void }) {
  const { isResult, isFromThreads } = useEntry();
  const label = isResult ? "Back to the results" : isFromThreads ? "Back to the threads" : "Back to the conversation";
  const back = isResult ? () => history.back() : isFromThreads ? () => go({ workspaceId, threads: true }) : close;
  return <button className="icon back" aria-label={label} onClick={back}><Icon name="back" /></button>;
}
