import type { Session } from "@confab/client";
import { useState } from "react";

import { Dialog } from "../Dialog";
import { useAttempt } from "../useMutation";
import { useApp } from "../appContext";

interface Props {
  session: Session;
  title: string;
  folders: readonly string[];
  close: () => void;
}

/** A folder exists as long as it contains a session: moving one there creates it. */
export function FolderDialog({ session, title, folders, close }: Props) {
  const attempt = useAttempt();
  const { client, offerUndo } = useApp();
  const conversationIds = [session.conversation.id];
  const [name, setName] = useState("");
  const move = async (categoryId: string | null) => {
    if (categoryId === session.categoryId) return close();
    if ((await attempt(client.moveToCategory(conversationIds, categoryId))) === null) return;
    close();
    const message = categoryId ? `${title} moved to ${categoryId}` : `${title} removed from ${session.categoryId}`;
    offerUndo({ message, undo: () => void attempt(client.moveToCategory(conversationIds, session.categoryId)) });
  };
  return (
    <Dialog title={`Folder for ${title}`} close={close}>
      <ul className="choices">
        {folders.map((folder) => (
          <li key={folder}><button aria-pressed={folder === session.categoryId} onClick={() => move(folder)}>{folder}</button></li>
        ))}
        {session.categoryId && <li><button onClick={() => move(null)}>No folder</button></li>}
      </ul>
      <form className="row" onSubmit={(event) => (event.preventDefault(), void move(name.trim()))}>
        <label>New folder<input value={name} onChange={(event) => setName(event.target.value)} maxLength={64} required /></label>
        <button className="button" disabled={!name.trim()}>Move</button>
      </form>
    </Dialog>
  );
}
