import { useState } from "react";

import { CreateGroupDocument } from "../../gql";
import { Avatar } from "../Avatar";
import { Dialog } from "../Dialog";
import { go } from "../route";
import { useMutation } from "../useMutation";
import { useApp } from "../appContext";

export function NewGroup({ close }: { close: () => void }) {
  const { me, people } = useApp();
  const mutate = useMutation();
  const [name, setName] = useState("");
  const [chosen, setChosen] = useState<string[]>([]);
  const create = async () => {
    const made = await mutate(CreateGroupDocument, { input: { name: name.trim(), memberIds: chosen } });
    if (made) (close(), go({ conversationId: made.createGroup.id }));
  };
  return (
    <Dialog title="New group" close={close}>
      <form onSubmit={(event) => (event.preventDefault(), void create())}>
        <label>Name<input value={name} onChange={(event) => setName(event.target.value)} maxLength={100} required /></label>
        <People people={people.filter((each) => each.id !== me)} chosen={chosen} choose={setChosen} legend="Members" />
        <p className="hint">Choose at least two people.</p>
        <button className="button" disabled={!name.trim() || chosen.length < 2}>Create</button>
      </form>
    </Dialog>
  );
}

interface PeopleProps {
  people: { id: string; displayName: string }[];
  chosen: string[];
  choose: (ids: string[]) => void;
  legend: string;
}

export function People({ people, chosen, choose, legend }: PeopleProps) {
  return (
    <fieldset className="people">
      <legend>{legend}</legend>
      {people.map((person) => (
        <label key={person.id}>
          <input
            type="checkbox"
            checked={chosen.includes(person.id)}
            onChange={(event) => choose(event.target.checked ? [...chosen, person.id] : chosen.filter((id) => id !== person.id))}
          />
          <Avatar id={person.id} name={person.displayName} small />
          {person.displayName}
        </label>
      ))}
    </fieldset>
  );
}
