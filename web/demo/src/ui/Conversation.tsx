import { peerIn, type Message } from "@confab/client";
import { useView } from "@confab/client/react";
import { useState } from "react";

import { MembersDocument, PersonDocument } from "../gql";
import { Avatar } from "./Avatar";
import { useBlocking, useIsBlocked } from "./blocking/useBlocks";
import { useFileDrop } from "./files/useFiles";
import { plural } from "./format";
import { GroupInfo } from "./sessions/GroupInfo";
import { Icon } from "./Icon";
import { Composer } from "./messages/Composer";
import { MessageActionsProvider } from "./messages/messageActions";
import { MessageList } from "./messages/MessageList";
import { useMessagePane } from "./messages/useMessagePane";
import { useBeginning } from "./messages/useTarget";
import { PinnedButton } from "./pins/PinnedButton";
import { StatusEmojiOf } from "./presence/CustomStatus";
import { PresenceText } from "./presence/PresenceText";
import { Profile } from "./presence/Profile";
import { useLatestUser } from "./presence/usePresence";
import { closeThread, go } from "./route";
import { BackButton, SearchHere } from "./search/buttons";
import { threadOf } from "./threads/format";
import { useAnswer, useTypingText, useApp } from "./appContext";

interface Props {
  id: string;
  subBiz: string | null;
  /** The message to show. */
  seq: number | null;
  /** The message whose thread is open. */
  threadSeq: number | null;
  /** The thread covers the conversation. */
  covered: boolean;
}

/** A private conversation, a group, or another conversation outside of workspaces. */
export function Conversation({ id, subBiz, seq, threadSeq, covered }: Props) {
  const { client, me } = useApp();
  const known = useView(client.session(id));
  const typing = useTypingText(id);
  const [dialog, setDialog] = useState<"group" | "person" | null>(null);

  const session = known ?? null;
  const conversation = session?.conversation;
  const group = conversation?.__typename === "Group" ? conversation : null;
  const members = useAnswer(MembersDocument, group && { id }).data?.group?.members?.edges.map(({ node }) => node.user) ?? [];

  // A private conversation begins with its first message: before that there is no session, and its id names the other person.
  const peerId = session ? undefined : peerIn(id, me);
  const answer = useAnswer(PersonDocument, peerId !== undefined && known === null ? { id: peerId } : null).data;
  const person = useLatestUser(conversation?.__typename === "PrivateConversation" ? conversation.peer : answer?.user);
  const title = person?.displayName ?? conversation?.title ?? peerId ?? "";

  const beginning = useBeginning(seq, threadSeq);
  const history = client.messages(id, beginning ? { around: beginning.seq } : {});
  const pane = useMessagePane({ conversationId: id, history, read: known, seq, beginning, covered });

  const hasLeft = !!group && (group.viewerRole === null || group.status === "DISSOLVED");
  const blocked = useIsBlocked(person?.id);
  const { unblock } = useBlocking();
  const mayWrite = !hasLeft && !blocked;
  const isGroupAdmin = group?.viewerRole === "OWNER" || group?.viewerRole === "ADMIN";
  const mayPin = !!session && mayWrite && (!group || isGroupAdmin);
  const drop = useFileDrop(id, mayWrite && !pane.isEditing);
  const openThread = (message: Message) => go({ subBiz, conversationId: threadOf(message) });
  const leave = () => {
    go({ subBiz });
    setTimeout(() => document.querySelector<HTMLElement>(".session[tabindex='0']")?.focus());
  };

  if (answer && !answer.user) return <main className="nothing-open"><h2>There is no such person</h2><p>Nobody here has the id “{peerId}”.</p><p><a href="#/">Back to all sessions</a></p></main>;
  if (known === null && peerId === undefined) return <main className="nothing-open"><h2>There is no such conversation</h2><p><a href="#/">Back to all sessions</a></p></main>;
  return (
    <main className={drop.over ? "conversation dropping" : "conversation"} aria-label={title} {...drop.on} onKeyDown={(event) => event.key === "Escape" && (closeThread() || leave())}>
      <header>
        <BackButton leave={leave} />
        <Avatar id={person?.id ?? id} name={title} url={group ? group.avatarUrl : person?.avatarUrl} sign={group ? "group" : undefined} live={!!person && !person.isBot} />
        <div className="about">
          <h2>{title} {person && <StatusEmojiOf userId={person.id} />}</h2>
          <p role="status">{typing || (group ? (hasLeft ? "You are no longer a member" : plural(group.memberCount, "member")) : person?.isBot ? "Bot" : session?.subBiz ?? (person && <PresenceText userId={person.id} />))}</p>
        </div>
        {session && <PinnedButton conversationId={id} jump={pane.jump} mayPin={mayPin} />}
        <SearchHere conversationId={id} />
        {person && <button className="icon" aria-label="Profile" title="Profile" onClick={() => setDialog("person")}><Icon name="person" /></button>}
        {group && !hasLeft && <button className="icon" aria-label="Group info" title="Group info" onClick={() => setDialog("group")}><Icon name="group" /></button>}
      </header>
      <MessageActionsProvider pane={pane} rights={{ mayReact: !hasLeft, mayWrite, mayPin, mayRecallAll: isGroupAdmin, hasInfo: true, openThread, mayStartThread: mayWrite }}>
        {pane.isRefused ? (
          <div className="history"><p className="empty" role="alert">The messages didn't load. <button className="link" onClick={pane.list.goToNewest}>Try again</button></p></div>
        ) : (
          <MessageList {...pane.list} receipts={session} unread={session?.unreadCount} showsSenders={!!group} />
        )}
      </MessageActionsProvider>
      {hasLeft ? (
        <p className="read-only">You can read messages from the time when you were a member.</p>
      ) : blocked && person ? (
        <p className="read-only">You have blocked {person.displayName}. <button className="link" onClick={() => void unblock(person)}>Unblock</button></p>
      ) : (
        <Composer {...pane.composer} send={(message) => client.send(id, message)} isNew={!session} people={members} mayMentionAll={isGroupAdmin} />
      )}
      {dialog === "group" && group && <GroupInfo id={id} close={() => setDialog(null)} />}
      {dialog === "person" && person && <Profile user={person} close={() => setDialog(null)} />}
    </main>
  );
}
