import { useState } from "react";

import { Avatar } from "./Avatar";
import { Dialog } from "./Dialog";
import { go } from "./route";
import { useWorld } from "./world";

/** The id of a private conversation contains both user ids, sorted by code point, as on the server. */
export const privateId = (one: string, other: string) => `p_${[one, other].sort().join("_")}`;

export function NewConversation({ close }: { close: () => void }) {
  const { me, people } = useWorld();
  const [id, setId] = useState("");
  const open = (other: string) => (close(), go({ conversationId: privateId(me, other) }));
  return (
    <Dialog title="New conversation" close={close}>
      <ul className="choices">
        {people.filter((each) => each.id !== me).map((person) => (
          <li key={person.id}>
            <button onClick={() => open(person.id)}><Avatar id={person.id} name={person.displayName} small /> {person.displayName}</button>
          </li>
        ))}
      </ul>
      <form className="row" onSubmit={(event) => (event.preventDefault(), open(id))}>
        <label>User id<input value={id} onChange={(event) => setId(event.target.value)} pattern="[A-Za-z0-9][A-Za-z0-9.@\-]*" maxLength={64} spellCheck={false} required /></label>
        <button className="button" disabled={!id || id === me}>Open</button>
      </form>
    </Dialog>
  );
}
