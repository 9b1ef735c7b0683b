import type { Message } from "@confab/client";
import { useChannel, useClient, useConnection, useMarkRead, useMessages, useSession } from "@confab/client/react";
import { useSessions, useThread, useTyping, useUploads, useWorkspace, useWorkspaces } from "@confab/client/react";
import { useState, type FormEvent } from "react";

export function Chat() {
  const [open, setOpen] = useState<string>();
  const [parent, setParent] = useState<Message>();
  const show = (id: string) => (setOpen(id), setParent(undefined));
  return (
    <>
      <List open={open} show={show} />
      {open ? <Conversation key={open} id={open} openThread={setParent} /> : <p>Choose a conversation.</p>}
      {parent && <Thread key={parent.id} parent={parent} close={() => setParent(undefined)} />}
    </>
  );
}

function List({ open, show }: { open?: string; show: (id: string) => void }) {
  const connection = useConnection();
  const { sessions } = useSessions();
  const workspaces = useWorkspaces();
  return (
    <nav>
      {connection !== "Active" && <p role="status">{connection}…</p>}
      {sessions.map(({ conversation, lastMessage, unreadCount }) => (
        <button key={conversation.id} aria-current={conversation.id === open} onClick={() => show(conversation.id)}>
          <b>{conversation.title}</b> {unreadCount > 0 && <i>{unreadCount}</i>}
          <small>{lastMessage?.content}</small>
        </button>
      ))}
      {workspaces.map(({ id, name }) => <Channels key={id} id={id} name={name} open={open} show={show} />)}
    </nav>
  );
}

function Channels({ id, name, open, show }: { id: string; name: string; open?: string; show: (id: string) => void }) {
  const { channels } = useWorkspace(id);
  return (
    <section>
      <h2>{name}</h2>
      {channels.filter(({ kind }) => kind !== "VOICE").map((channel) => (
        <button key={channel.id} aria-current={channel.id === open} onClick={() => show(channel.id)}>
          # {channel.name} {channel.unreadCount > 0 && <i>{channel.unreadCount}</i>}
        </button>
      ))}
    </section>
  );
}

function Conversation({ id, openThread }: { id: string; openThread: (parent: Message) => void }) {
  const session = useSession(id);
  const history = useMessages(id);
  const typing = useTyping(id);
  useMarkRead(id, history.hasNewer ? undefined : history.messages.at(-1)?.seq);
  return (
    <main>
      <header>{session?.conversation.title ?? <ChannelName id={id} />}</header>
      <Messages {...history} openThread={openThread} />
      <p role="status">{typing.length > 0 && `${typing.map(({ displayName }) => displayName).join(", ")} typing…`}</p>
      <Composer id={id} send={history.send} />
    </main>
  );
}

const ChannelName = ({ id }: { id: string }) => <># {useChannel(id).channel?.name}</>;

function Thread({ parent, close }: { parent: Message; close: () => void }) {
  const thread = useThread(parent);
  return (
    <aside>
      <header>Thread: {parent.content} <button onClick={close}>Close</button></header>
      <Messages {...thread} />
      <Composer id={parent.conversationId} send={thread.send} />
    </aside>
  );
}

type MessagesProps = Omit<ReturnType<typeof useMessages>, "send"> & { openThread?: (parent: Message) => void };

function Messages({ status, messages, pending, hasOlder, loadOlder, error, openThread }: MessagesProps) {
  const client = useClient();
  if (status !== "ready") return <p>{error?.message ?? "Loading…"}</p>;
  return (
    <ol>
      {hasOlder && <button onClick={() => void loadOlder().catch(alert)}>Older messages</button>}
      {messages.map((message) => (
        <li key={message.id}>
          <b>{message.authorName}</b> <time>{new Date(message.createdAt).toLocaleTimeString()}</time>
          <p>{message.content ?? "This message was recalled."} {message.editCount > 0 && "(edited)"}</p>
          {message.attachments.map(({ id, url, filename }) => <a key={id} href={url ?? undefined}>{filename}</a>)}
          {message.reactions.map(({ emoji, count }) => <i key={emoji}>{emoji} {count}</i>)}
          <button onClick={() => void client.react(message.id, "👍").catch(alert)}>👍</button>
          {openThread && <button onClick={() => openThread(message)}>{message.thread?.replyCount ?? 0} replies</button>}
          {message.delivery && <small>{message.delivery.status}</small>}
        </li>
      ))}
      {pending.map(({ key, draft, failure }) => (
        <li key={key} className="pending">
          <p>{draft.text}</p>
          {failure ?? "Sending…"}
          {failure && <button onClick={() => client.retry(key)}>Send again</button>}
        </li>
      ))}
    </ol>
  );
}

function Composer({ id, send }: { id: string; send: ReturnType<typeof useMessages>["send"] }) {
  const client = useClient();
  const { files, add, remove, take } = useUploads(id);
  const [text, setText] = useState("");
  const write = (now: string) => (setText(now), client.startTyping(id));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim() || files.length) send({ text, files: take() });
    setText("");
  };
  return (
    <form onSubmit={submit}>
      {files.map(({ upload, progress, error }, index) => (
        <button key={index} type="button" onClick={() => remove(upload)}>× {error?.message ?? `${progress * 100} %`}</button>
      ))}
      <input aria-label="File" type="file" onChange={({ target }) => [...target.files!].forEach((each) => add(each))} />
      <input aria-label="Message" value={text} onChange={(event) => write(event.target.value)} />
      <button>Send</button>
    </form>
  );
}
