import type { Session } from "@confab/client";
import { useState } from "react";

import { MoveToFolderDocument } from "../gql";
import { Dialog } from "./Dialog";
import { useDo } from "./useDo";
import { useWorld } from "./world";

/** A folder exists as long as it contains a session: moving one there creates it. */
export function FolderDialog({ session, folders, close }: { session: Session; folders: string[]; close: () => void }) {
  const run = useDo();
  const { offerUndo } = useWorld();
  const conversationIds = [session.conversation.id];
  const [name, setName] = useState("");
  const move = async (categoryId: string | null) => {
    if (categoryId === session.categoryId) return close();
    if (!(await run(MoveToFolderDocument, { conversationIds, categoryId }))) return;
    close();
    const said = categoryId ? `${session.conversation.title} moved to ${categoryId}` : `${session.conversation.title} taken out of ${session.categoryId}`;
    offerUndo({ said, undo: () => void run(MoveToFolderDocument, { conversationIds, categoryId: session.categoryId }) });
  };
  return (
    <Dialog title={`Folder for ${session.conversation.title}`} close={close}>
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
