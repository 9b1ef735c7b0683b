import { privateId } from "@confab/client";
import { useEffect, useState } from "react";

import { errorText } from "../../confab/errorText";
import { FindPeopleDocument } from "../../gql";
import type { Person } from "../../signIn";
import { Avatar } from "../Avatar";
import { Dialog } from "../Dialog";
import { go } from "../route";
import { useAnswer, useApp } from "../appContext";

const DEBOUNCE_MS = 150;

/** Starts a conversation with somebody: found by the start of their name or id, or by their whole id. */
export function NewConversation({ close }: { close: () => void }) {
  const { me, people } = useApp();
  const [text, setText] = useState("");
  const [wanted, setWanted] = useState("");
  const query = text.trim();
  useEffect(() => {
    const timer = setTimeout(() => setWanted(query), DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [query]);

  const { data, error } = useAnswer(FindPeopleDocument, wanted ? { query: wanted, id: wanted } : null);
  const isCurrent = wanted === query;
  const found = data && isCurrent ? [...(data.user ? [data.user] : []), ...data.searchUsers.edges.map(({ node }) => node).filter(({ id }) => id !== data.user?.id)] : [];
  const shown: (Person & { avatarUrl?: string | null })[] = (query ? found : people).filter(({ id }) => id !== me);
  const open = (other: string) => (close(), go({ conversationId: privateId(me, other) }));

  const hint = error ? errorText(error) : data && !shown.length ? "There is no such person." : "";
  return (
    <Dialog title="New conversation" close={close}>
      <form onSubmit={(event) => (event.preventDefault(), shown[0] && query && open(shown[0].id))}>
        <label>
          Name or user id
          <input type="search" value={text} onChange={(event) => setText(event.target.value)} maxLength={128} spellCheck={false} autoCapitalize="none" autoComplete="off" autoFocus />
        </label>
      </form>
      <p className="hint" role="status">{query && isCurrent ? hint : ""}</p>
      <ul className="choices" aria-label="People">
        {shown.map((person) => (
          <li key={person.id}>
            <button onClick={() => open(person.id)}><Avatar id={person.id} name={person.displayName} url={person.avatarUrl ?? null} small /> {person.displayName}</button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
