import { peerIn, type Session, type User } from "@confab/client";
import { useEffect, useRef, type ReactNode } from "react";

import { excerptOf } from "../../confab/highlights";
import type { FoundMessage } from "../../confab/search";
import { ConversationNameDocument } from "../../gql";
import { Avatar } from "../Avatar";
import { timeOrDay, textOf } from "../format";
import { Icon } from "../Icon";
import { useLatestUser, useTitle } from "../presence/usePresence";
import { useAnswer, useApp } from "../appContext";
import { useSearchState, type Group, type Names, type Result } from "./useResults";

interface Props {
  groups: Group[];
  names: Names;
  chosen: Result | undefined;
  idOf: (result: Result) => string;
  open: (result: Result) => void;
}

/** The results as one list with headings, of which one result is chosen. */
export function Results({ groups, names, chosen, idOf, open }: Props) {
  const { search } = useApp();
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const option = list.current!.querySelector<HTMLElement>("[aria-selected='true']");
    // The first one with its heading.
    if (option === list.current!.querySelector("[role=option]")) list.current!.scrollTop = 0;
    else option?.scrollIntoView({ block: "nearest" });
  }, [chosen?.key]);
  return (
    <div ref={list} id="search-results" className="results" role="listbox" aria-label="Results" tabIndex={-1}>
      {groups.map(({ title, results }) => (
        <div key={title} role="group" aria-label={title}>
          <p className="group-title" aria-hidden="true">{title}</p>
          {results.map((result) => (
            <div
              key={result.key}
              id={idOf(result)}
              className={`result ${result.kind}`}
              role="option"
              aria-selected={result === chosen}
              onPointerMove={() => result !== chosen && search.choose(result.key)}
              onClick={() => open(result)}
            >
              <ResultContent result={result} names={names} />
            </div>
          ))}
        </div>
      ))}
    </div>
  );
}

function ResultContent({ result, names }: { result: Result; names: Names }) {
  const { loadingMore } = useSearchState();
  switch (result.kind) {
    case "person":
      return <PersonLine user={result.user} />;
    case "session":
      return <SessionLine conversation={result.session.conversation} />;
    case "channel": {
      const { channel, workspace } = result.channel;
      return <Line face={<span className="face"><Icon name={channel.kind === "VOICE" ? "speaker" : "hash"} /></span>} name={channel.name} more={workspace.name} />;
    }
    case "message":
      return <MessageResult found={result.found} names={names} />;
    case "more":
      return <span className="more-results">{loadingMore ? "Loading…" : "Show more messages"}</span>;
  }
}

const Line = ({ face, name, more }: { face: ReactNode; name: string; more: string }) => (
  <>
    {face}
    <span className="name">{name}</span>
    {more && <small>{more}</small>}
  </>
);

function PersonLine({ user }: { user: User }) {
  const { id, displayName, avatarUrl, isBot } = useLatestUser(user);
  return <Line face={<Avatar id={id} name={displayName} url={avatarUrl} small live={!isBot} />} name={displayName} more={isBot ? "Bot" : id} />;
}

function SessionLine({ conversation }: Pick<Session, "conversation">) {
  const title = useTitle(conversation);
  const peer = useLatestUser(conversation.__typename === "PrivateConversation" ? conversation.peer : null);
  const group = conversation.__typename === "Group" ? conversation : null;
  const face = <Avatar id={peer?.id ?? conversation.id} name={title} url={peer?.avatarUrl ?? group?.avatarUrl ?? null} sign={peer ? undefined : group ? "group" : "stack"} small live={!!peer && !peer.isBot} />;
  return <Line face={face} name={title} more={group ? "Group" : ""} />;
}

function MessageResult({ found: { node, highlights }, names }: { found: FoundMessage; names: Names }) {
  const { me } = useApp();
  const own = node.sender.id === me;
  const text = node.content ?? "";
  // In a private conversation, the sender's name is also that of the conversation.
  const isOthers = peerIn(node.conversationId, me) === node.sender.id;
  return (
    <>
      <Avatar id={node.sender.id} name={node.authorName} url={node.authorAvatarUrl} small />
      <span className="found">
        <span className="found-head">
          <b>{own ? "You" : node.authorName}</b>
          <span className="where">{!isOthers && <ConversationName conversationId={node.conversationId} names={names} />}</span>
          <time dateTime={node.createdAt}>{timeOrDay(node.createdAt)}</time>
        </span>
        <span className="excerpt" dir="auto">
          {text ? excerptOf(text, highlights).map((part, index) => (part.isFound ? <mark key={index}>{part.text}</mark> : part.text)) : textOf(node)}
        </span>
      </span>
    </>
  );
}

/** The name of a conversation, requested if it is not loaded. */
export function ConversationName({ conversationId, names: { sessions, channels } }: { conversationId: string; names: Names }) {
  const session = sessions.find(({ conversation }) => conversation.id === conversationId);
  const channel = channels.find((each) => each.channel.id === conversationId);
  const title = useTitle(session?.conversation);
  const { data } = useAnswer(ConversationNameDocument, session || channel ? null : { id: conversationId });
  if (session) return title;
  if (channel) return `#${channel.channel.name} · ${channel.workspace.name}`;
  const other = data?.conversation;
  if (other?.__typename === "Thread") return `Thread: ${other.title}`;
  if (other?.__typename === "Channel") return `#${other.name} · ${other.workspace.name}`;
  return other?.title ?? "";
}
