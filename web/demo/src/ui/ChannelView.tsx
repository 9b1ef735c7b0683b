import type { Message } from "@confab/client";
import { useView } from "@confab/client/react";

import { Avatar } from "./Avatar";
import { useFileDrop } from "./files/useFiles";
import { Composer, type ComposerProps } from "./messages/Composer";
import { MessageActionsProvider } from "./messages/messageActions";
import { MessageList } from "./messages/MessageList";
import { useMessagePane } from "./messages/useMessagePane";
import type { ReadState } from "./messages/useReading";
import { useBeginning } from "./messages/useTarget";
import { rightsFrom } from "./moderation/rights";
import { PinnedButton } from "./pins/PinnedButton";
import { closeThread, go } from "./route";
import { BackButton, SearchHere } from "./search/buttons";
import { threadOf } from "./threads/format";
import { ChannelBell } from "./workspaces/ChannelBell";
import { EmptyChannel } from "./workspaces/EmptyChannel";
import { ReadOnlyChannel } from "./workspaces/ReadOnlyChannel";
import { useApp } from "./appContext";

interface Props {
  id: string;
  workspaceId?: string | null;
  subBiz: string | null;
  /** The message to show. */
  seq: number | null;
  /** The message whose thread is open. */
  threadSeq: number | null;
  /** The thread covers the channel. */
  covered: boolean;
}

/** A channel of a workspace. */
export function ChannelView({ id, workspaceId = null, subBiz, seq, threadSeq, covered }: Props) {
  const { client } = useApp();
  const { status, channel } = useView(client.channel(id));
  const workspaceName = useView(client.workspaces).find((each) => each.id === channel?.workspace.id)?.name;
  const beginning = useBeginning(seq, threadSeq);
  const history = client.messages(id, beginning ? { around: beginning.seq } : {});
  const pane = useMessagePane({ conversationId: id, history, read: status === "loading" ? undefined : readStateOf(channel), seq, beginning, covered });
  const may = rightsFrom(channel?.viewerPermissions);
  const isOpen = !channel?.isArchived;
  const mayWrite = may("SEND_MESSAGES") && isOpen;
  const mayPin = may("PIN_MESSAGES") && isOpen;
  const mayStartThread = may("SEND_THREADS") && may("CREATE_THREADS") && isOpen;
  const drop = useFileDrop(id, mayWrite && !pane.isEditing);
  const leave = () => go({ workspaceId, subBiz });
  const openThread = (message: Message) => go({ workspaceId, subBiz, conversationId: threadOf(message) });

  if (status === "failed" || pane.isRefused) return <main className="nothing-open"><h2>There is no such conversation</h2><p><a href="#/">Back to all sessions</a></p></main>;
  if (!channel) return <main className="nothing-open" role="status" aria-label="Loading" />;

  return (
    <main className={drop.over ? "conversation dropping" : "conversation"} aria-label={channel.name} {...drop.on} onKeyDown={(event) => event.key === "Escape" && (closeThread() || leave())}>
      <header>
        <BackButton leave={leave} />
        <Avatar id={id} name={channel.name} sign="hash" />
        <div className="about">
          <h2>{channel.name}</h2>
          <p>{[workspaceName, channel.topic].filter(Boolean).join(" · ")}</p>
        </div>
        <PinnedButton conversationId={id} jump={pane.jump} mayPin={mayPin} />
        <ChannelBell id={id} name={channel.name} />
        <SearchHere conversationId={id} />
      </header>
      <MessageActionsProvider pane={pane} rights={{ mayReact: mayWrite, mayWrite, mayPin, mayRecallAll: may("MANAGE_MESSAGES"), openThread, mayStartThread }}>
        <MessageList
          {...pane.list}
          receipts={null}
          unread={readStateOf(channel)?.unreadCount}
          showsSenders
          empty={<EmptyChannel name={channel.name} topic={channel.topic} mayWrite={mayWrite} />}
        />
      </MessageActionsProvider>
      {mayWrite ? (
        <ChannelComposer workspaceId={channel.workspace.id} {...pane.composer} send={(message) => client.send(id, message)} mayMentionAll={may("MENTION_EVERYONE")} />
      ) : (
        <ReadOnlyChannel channel={channel} mayManage={may("MANAGE_CHANNELS")} />
      )}
    </main>
  );
}

type ReadChannel = { session: ReadState | null; viewerFollows: boolean; unreadCount: number };

/** In followed channels the client counts the unread messages as they arrive. */
function readStateOf(channel: ReadChannel | undefined): ReadState | null {
  if (!channel?.session) return null;
  const { session, viewerFollows, unreadCount } = channel;
  return viewerFollows ? { ...session, unreadCount } : session;
}

/** Members of the workspace may be mentioned. */
export function ChannelComposer({ workspaceId, ...props }: Omit<ComposerProps, "people"> & { workspaceId: string }) {
  const { client } = useApp();
  const people = useView(client.workspace(workspaceId)).workspace?.members?.edges.map(({ node }) => node.user) ?? [];
  return <Composer people={people} {...props} />;
}
