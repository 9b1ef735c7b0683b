import type { ConfabError } from "@confab/client";
import { useView } from "@confab/client/react";
import { useEffect, useState } from "react";

import { reasonOf } from "../../confab/reasons";
import { Avatar } from "../Avatar";
import { Dialog } from "../Dialog";
import { useWorld } from "../world";
import { useBlocking } from "./useBlocks";

/** The people the user has blocked. */
export function BlockedPeople({ close }: { close: () => void }) {
  const { client } = useWorld();
  const { unblock } = useBlocking();
  const people = useView(client.blockedUsers);
  const [trouble, setTrouble] = useState<ConfabError | null>(null);
  // Other devices may have changed it.
  useEffect(() => void client.reloadBlockedUsers().then(() => setTrouble(null), setTrouble), [client]);
  return (
    <Dialog title="Blocked people" close={close}>
      {!people && (trouble ? <p role="alert">The list didn't load. {reasonOf(trouble)}</p> : <p role="status">Loading…</p>)}
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
