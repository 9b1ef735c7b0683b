import { privateId, type User } from "@confab/client";

import { Avatar } from "../Avatar";
import { useBlocking, useIsBlocked } from "../blocking/useBlocks";
import { Dialog } from "../Dialog";
import { go } from "../route";
import { useApp } from "../appContext";
import { PRESENCE_NAMES, useEveryMinute, useLatestUser, usePresence, presenceText } from "./usePresence";

const KINDS = { PLAYING: "Playing", STREAMING: "Streaming", LISTENING: "Listening to", WATCHING: "Watching", COMPETING: "Competing in" };

/** A person: presence, custom status, and activities that their devices report. */
export function Profile({ user: given, close }: { user: User; close: () => void }) {
  const { me } = useApp();
  const user = useLatestUser(given);
  const presence = usePresence(user.id);
  const blocked = useIsBlocked(user.id);
  const { block, unblock } = useBlocking();
  useEveryMinute();
  const status = presence?.customStatus;
  return (
    <Dialog title={user.displayName} close={close}>
      <div className="profile">
        <Avatar id={user.id} name={user.displayName} url={user.avatarUrl} live={!user.isBot} />
        <p role="status">{user.isBot ? "Bot" : presence ? presenceText(presence) : PRESENCE_NAMES.OFFLINE}</p>
        {status && <p className="profile-status">{status.emoji && <span aria-hidden="true">{status.emoji}</span>} {status.text}</p>}
        {presence?.activities.map((each, index) => (
          <p key={index} className="hint">{KINDS[each.type]} <b>{each.name}</b>{each.details ? ` — ${each.details}` : ""}</p>
        ))}
      </div>
      {user.id !== me && (
        <div className="dialog-buttons">
          {!user.isBot && blocked !== undefined && <button className="button quiet" onClick={() => void (blocked ? unblock(user) : block(user))}>{blocked ? "Unblock" : "Block"}</button>}
          <button className="button" onClick={() => (close(), go({ conversationId: privateId(me, user.id) }))}>Send a message</button>
        </div>
      )}
    </Dialog>
  );
}
