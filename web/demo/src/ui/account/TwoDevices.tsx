import { useEffect, useState } from "react";

import { loadPeople, type Person } from "../../signIn";
import { Icon } from "../Icon";
import { ThemeSwitch } from "./ThemeSwitch";

/** The same demo twice, each with its own storage, like two devices. */
export function TwoDevices() {
  const [people, setPeople] = useState<Person[]>([]);
  useEffect(() => void loadPeople().then((all) => setPeople(all ?? [])), []);
  return (
    <main className="two">
      <header>
        <a className="icon" href="?" aria-label="Back to signing in"><Icon name="back" /></a>
        <h1>Two devices</h1>
        <p>Change something on the left: the right follows.</p>
        <ThemeSwitch />
      </header>
      <Device side="left" people={people} />
      <Device side="right" people={people} />
    </main>
  );
}

function Device({ side, people }: { side: "left" | "right"; people: Person[] }) {
  const title = side === "left" ? "Left device" : "Right device";
  const [who, setWho] = useState("alice");
  return (
    <section className="device" aria-label={title}>
      <label>
        {title}
        <select value={who} onChange={(event) => setWho(event.target.value)}>
          {people.map((person) => (
            <option key={person.id} value={person.id}>{person.displayName}</option>
          ))}
        </select>
      </label>
      <iframe key={who} title={title} src={`?device=${side}&as=${encodeURIComponent(who)}`} />
    </section>
  );
}
