import { useState } from "react";

import { privateId } from "../confab/ids";
import { PersonDocument } from "../gql";
import { Avatar } from "./Avatar";
import { Dialog } from "./Dialog";
import { go } from "./route";
import { useWorld } from "./world";

export function NewConversation({ close }: { close: () => void }) {
  const { me, client, people } = useWorld();
  const [id, setId] = useState("");
  const [trouble, setTrouble] = useState("");
  const open = (other: string) => (close(), go({ conversationId: privateId(me, other) }));

  const find = async () => {
    const { data } = await client.query(PersonDocument, { id }, { requestPolicy: "network-only" }).toPromise();
    if (data?.user) open(data.user.id);
    else setTrouble(data ? "There is no person with this id." : "This needs the network. Try again when you are online.");
  };
  return (
    <Dialog title="New conversation" close={close}>
      <ul className="choices">
        {people.filter((each) => each.id !== me).map((person) => (
          <li key={person.id}>
            <button onClick={() => open(person.id)}><Avatar id={person.id} name={person.displayName} small /> {person.displayName}</button>
          </li>
        ))}
      </ul>
      <form className="row" onSubmit={(event) => (event.preventDefault(), void find())}>
        <label>User id<input value={id} onChange={(event) => (setId(event.target.value), setTrouble(""))} maxLength={128} spellCheck={false} autoCapitalize="none" required aria-describedby="no-person" /></label>
        <button className="button" disabled={!id || id === me}>Open</button>
        <p id="no-person" className="trouble" role="alert">{trouble}</p>
      </form>
    </Dialog>
  );
}
