import type { Draft, Message, Upload, User } from "@confab/client";
import { useView } from "@confab/client/react";
import { useEffect, useId, useLayoutEffect, useRef, useState, type KeyboardEvent, type RefObject } from "react";
import { flushSync } from "react-dom";

import { Avatar } from "../Avatar";
import { Tray } from "../files/Tray";
import { useAddFiles } from "../files/useFiles";
import { textOf } from "../format";
import { Icon } from "../Icon";
import { useAttempt } from "../useMutation";
import { useApp } from "../appContext";

export type NewMessage = Draft & { files: readonly Upload[] };

export interface ComposerProps {
  box: RefObject<HTMLTextAreaElement | null>;
  conversationId: string;
  send: (message: NewMessage) => void;
  /** The conversation does not exist yet, so no typing signal is sent. */
  isNew?: boolean;
  /** The name of the box. */
  label?: string;
  /** People who may be mentioned. */
  people: readonly Pick<User, "id" | "displayName">[];
  mayMentionAll: boolean;
  replying: Message | null;
  editing: Message | null;
  sent: () => void;
  done: () => void;
  editLast: () => void;
}

const EVERYBODY = { id: "*", displayName: "everybody" };

export function Composer({ box, conversationId, send: sendMessage, isNew = false, label = "Message", people, mayMentionAll, replying, editing, sent, done, editLast }: ComposerProps) {
  const { me, client, drafts, uploads } = useApp();
  const files = useView(uploads.chosenFor(conversationId));
  const add = useAddFiles(conversationId);
  const mentions = useId();
  const chooser = useRef<HTMLInputElement>(null);
  const attempt = useAttempt();
  const [text, setText] = useState(() => drafts.get(conversationId));
  const [wanted, setWanted] = useState<string | null>(null);
  const [choice, setChoice] = useState(0);

  const known = [...people.filter(({ id }) => id !== me), ...(mayMentionAll ? [EVERYBODY] : [])];
  const fitting = wanted === null ? [] : known.filter((each) => each.displayName.toLowerCase().startsWith(wanted.toLowerCase())).slice(0, 6);

  useEffect(() => {
    if (!matchMedia("(hover: none)").matches) box.current?.focus();
  }, []);
  useLayoutEffect(() => {
    if (!editing) return;
    setText(editing.content ?? "");
    return () => setText(drafts.get(conversationId));
  }, [editing]);
  useLayoutEffect(() => {
    box.current!.style.height = "0";
    box.current!.style.height = `${Math.min(box.current!.scrollHeight, 160)}px`;
  }, [text]);

  const stopTyping = () => client.stopTyping(conversationId);
  useEffect(() => stopTyping, []); // When the conversation is left.

  const change = (value: string) => {
    setText(value);
    if (!editing) drafts.set(conversationId, value);
    const upToCaret = value.slice(0, box.current!.selectionStart);
    setWanted(/(?:^|\s)@([\p{L}\p{N} ]{0,30})$/u.exec(upToCaret)?.[1] ?? null);
    setChoice(0);
    if (!value.trim()) stopTyping();
    else if (!editing && !isNew) client.startTyping(conversationId);
  };

  const pick = (name: string) => {
    const caret = box.current!.selectionStart;
    const start = text.lastIndexOf("@", caret - 1);
    const value = `${text.slice(0, start)}@${name} ${text.slice(caret)}`;
    if (!editing) drafts.set(conversationId, value);
    setWanted(null);
    // At once: the user may press the next key before the next frame.
    flushSync(() => setText(value));
    box.current!.setSelectionRange(start + name.length + 2, start + name.length + 2);
  };

  const now = useRef(editing);
  now.current = editing;
  const saveEdit = async (edited: Message, content: string) => {
    setWanted(null);
    // If this fails, the text stays, to be sent again.
    const saved = content === edited.content || (await attempt(client.edit(edited.id, content)));
    if (saved && now.current === edited) done();
  };

  const send = () => {
    const content = text.trim();
    if (editing) return void (content && saveEdit(editing, content));
    if (!content && !files.length) return;
    const mentioned = known.filter((each) => content.includes(`@${each.displayName}`)).map(({ id }) => id);
    sendMessage({
      text: content,
      files: uploads.take(conversationId),
      mentions: mentioned.filter((id) => id !== EVERYBODY.id),
      mentionAll: mentioned.includes(EVERYBODY.id),
      ...(replying && { replyToId: replying.id }),
    });
    sent();
    drafts.set(conversationId, "");
    setText("");
    setWanted(null);
    done();
    box.current?.focus();
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const take = () => (event.preventDefault(), event.stopPropagation());
    if (fitting.length) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) return take(), setChoice((choice + step + fitting.length) % fitting.length);
      if (event.key === "Enter" || event.key === "Tab") return take(), pick(fitting[choice]!.displayName);
      if (event.key === "Escape") return take(), setWanted(null);
    }
    if (event.key === "Escape" && (editing || replying)) return take(), done();
    if (event.key === "ArrowUp" && !text) return take(), editLast();
    if (event.key === "Enter" && !event.shiftKey) return take(), send();
  };

  const about = editing ?? replying;
  return (
    <form className="composer" onSubmit={(event) => (event.preventDefault(), send())}>
      {about && (
        <div className="about-message">
          <Icon name={editing ? "pencil" : "reply"} />
          <p><b>{editing ? "Edit message" : `Reply to ${about.sender.id === me ? "yourself" : about.sender.displayName}`}</b><span>{textOf(about)}</span></p>
          <button type="button" className="icon" aria-label={editing ? "Cancel editing" : "Cancel reply"} onClick={done}><Icon name="close" /></button>
        </div>
      )}
      {fitting.length > 0 && (
        <ul className="mentions" id={mentions} role="listbox" aria-label="Mention">
          {fitting.map((each, index) => (
            <li key={each.id} id={`${mentions}-${index}`} role="option" aria-selected={index === choice} onMouseDown={(event) => (event.preventDefault(), pick(each.displayName))}>
              <Avatar id={each.id} name={each.displayName} small /> {each.displayName}
            </li>
          ))}
        </ul>
      )}
      {!editing && files.length > 0 && <Tray files={files} />}
      <input ref={chooser} type="file" multiple hidden onChange={({ target }) => (add(target.files ?? []), (target.value = ""), box.current?.focus())} />
      <button type="button" className="icon attach" aria-label="Add photos and files" title="Add photos and files" disabled={!!editing} onClick={() => chooser.current!.click()}><Icon name="clip" /></button>
      <textarea
        ref={box}
        aria-label={label}
        dir="auto"
        placeholder={label}
        rows={1}
        maxLength={4000}
        value={text}
        aria-autocomplete="list"
        aria-haspopup="listbox"
        aria-controls={fitting.length ? mentions : undefined}
        aria-activedescendant={fitting.length ? `${mentions}-${choice}` : undefined}
        onChange={(event) => change(event.target.value)}
        onKeyDown={onKeyDown}
        onPaste={(event) => {
          const pasted = [...event.clipboardData.files];
          if (!pasted.length || editing) return;
          event.preventDefault();
          add(pasted);
        }}
      />
      <button className="icon send" aria-label={editing ? "Save" : "Send"} disabled={!text.trim() && (!!editing || !files.length)}><Icon name={editing ? "check" : "send"} /></button>
    </form>
  );
}
