import type { ConfabError } from "@confab/client";
import { useView } from "@confab/client/react";
import { useEffect, useState } from "react";

import { errorText } from "../../confab/errorText";
import { Avatar } from "../Avatar";
import { Dialog } from "../Dialog";
import { useApp } from "../appContext";
import { useBlocking } from "./useBlocks";

/** The people the user has blocked. */
export function BlockedPeople({ close }: { close: () => void }) {
  const { client } = useApp();
  const { unblock } = useBlocking();
  const people = useView(client.blockedUsers);
  const [error, setError] = useState<ConfabError | null>(null);
  // Other devices may have changed it.
  useEffect(() => void client.reloadBlockedUsers().then(() => setError(null), setError), [client]);
  return (
    <Dialog title="Blocked people" close={close}>
      {!people && (error ? <p role="alert">The list didn't load. {errorText(error)}</p> : <p role="status">Loading…</p>)}
      {people?.length === 0 && <p className="hint">You have blocked nobody. To block somebody, open their profile.</p>}
      <ul className="people-list" aria-label="Blocked people">
        {people?.map((each) => (
          <li key={each.id} className="blocked-person">
            <Avatar id={each.id} name={each.displayName} url={each.avatarUrl} small />
            <span className="name">{each.displayName}</span>
            <button className="button quiet" onClick={() => void unblock(each)}>Unblock<span className="sr-only"> {each.displayName}</span></button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
