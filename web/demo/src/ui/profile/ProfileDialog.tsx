import type { User } from "@confab/client";
import { useView } from "@confab/client/react";
import { useState } from "react";

import { Avatar } from "../Avatar";
import { Dialog } from "../Dialog";
import { useAttempt } from "../useMutation";
import { useApp } from "../appContext";
import "./profile.css";

/** The user's own profile, as others see it. */
export function ProfileDialog({ close, editStatus }: { close: () => void; editStatus: () => void }) {
  const me = useView(useApp().client.me);
  return (
    <Dialog title="Your profile" close={close}>
      {me ? <ProfileForm key={me.id} me={me} close={close} editStatus={editStatus} /> : <p role="status">Loading…</p>}
    </Dialog>
  );
}

const isAddress = (text: string) => /^https?:\/\/[^\s/]/i.test(text) && URL.canParse(text);

function ProfileForm({ me, close, editStatus }: { me: User; close: () => void; editStatus: () => void }) {
  const attempt = useAttempt();
  const { client, offerUndo } = useApp();
  const before = { displayName: me.displayName, avatarUrl: me.avatarUrl ?? "" };
  const [name, setName] = useState(before.displayName);
  const [picture, setPicture] = useState(before.avatarUrl);
  const [broken, setBroken] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const wanted = { displayName: name.trim(), avatarUrl: picture.trim() };
  const isValid = !wanted.avatarUrl || isAddress(wanted.avatarUrl);
  const changed = wanted.displayName !== before.displayName || wanted.avatarUrl !== before.avatarUrl;
  const failure = !isValid ? "An address begins with https:// or http://" : wanted.avatarUrl && broken === wanted.avatarUrl ? "There is no picture at this address. Others will see your initials." : "";

  const save = async () => {
    setBusy(true);
    const saved = await attempt(client.updateProfile(wanted));
    setBusy(false);
    if (saved === null) return;
    close();
    offerUndo({ message: "Profile saved", undo: () => void attempt(client.updateProfile(before)) });
  };
  return (
    <form className="profile-form" onSubmit={(event) => (event.preventDefault(), void save())}>
      <div className="profile-picture">
        <Avatar id={me.id} name={name.trim() || me.displayName} url={isValid ? wanted.avatarUrl : null} failed={setBroken} />
        {picture && <button type="button" className="button quiet" onClick={() => setPicture("")}>Remove picture</button>}
      </div>
      <label>Name<input value={name} maxLength={100} required autoComplete="name" onChange={(event) => setName(event.target.value)} /></label>
      <label>
        Address of a picture
        <input type="url" inputMode="url" value={picture} maxLength={2048} placeholder="https://example.org/me.jpg" autoComplete="photo" spellCheck={false} aria-describedby="picture-hint" aria-invalid={!isValid} onChange={(event) => setPicture(event.target.value)} />
      </label>
      <p id="picture-hint" className={failure ? "failure" : "hint"} role="status">{failure || "Without a picture, others see your initials."}</p>
      <div className="dialog-buttons">
        <button type="button" className="button quiet" onClick={editStatus}>Set a status</button>
        <button className="button" disabled={busy || !changed || !wanted.displayName || !isValid}>Save</button>
      </div>
    </form>
  );
}
