import { useState } from "react";

import { CreateChannelDocument } from "../../gql";
import { Dialog } from "../Dialog";
import { go } from "../route";
import { useMutation } from "../useMutation";

/** Creates a text channel, and opens it. */
export function NewChannel({ workspaceId, close }: { workspaceId: string; close: () => void }) {
  const mutate = useMutation();
  const [name, setName] = useState("");
  const [topic, setTopic] = useState("");
  const [isPrivate, setPrivate] = useState(false);
  const [busy, setBusy] = useState(false);
  const create = async () => {
    setBusy(true);
    const input = { workspaceId, name: name.trim(), kind: isPrivate ? ("PRIVATE" as const) : ("PUBLIC" as const), ...(topic.trim() && { topic: topic.trim() }) };
    const made = await mutate(CreateChannelDocument, { input });
    setBusy(false);
    if (made) (close(), go({ workspaceId, conversationId: made.createChannel.id }));
  };
  return (
    <Dialog title="New channel" close={close}>
      <form onSubmit={(event) => (event.preventDefault(), void create())}>
        <label>Name<input value={name} maxLength={80} required autoFocus autoComplete="off" onChange={(event) => setName(event.target.value)} /></label>
        <label>Topic, optional<input value={topic} maxLength={1024} autoComplete="off" onChange={(event) => setTopic(event.target.value)} /></label>
        <label className="check"><input type="checkbox" checked={isPrivate} onChange={(event) => setPrivate(event.target.checked)} /> Private: only people who are added see it</label>
        <button className="button" disabled={busy || !name.trim()}>Create</button>
      </form>
    </Dialog>
  );
}
