import type { Message } from "@confab/client";
import { useState } from "react";

import { ReportMessageDocument } from "../../gql";
import { Dialog } from "../Dialog";
import { textOf } from "../format";
import { useLatestUser } from "../presence/usePresence";
import { useMutation } from "../useMutation";
import { useApp } from "../appContext";
import { REASONS, type Reason } from "./format";

/** Reports a message to the moderators. */
export function ReportDialog({ message, close }: { message: Message; close: () => void }) {
  const { showToast } = useApp();
  const sender = useLatestUser(message.sender);
  const mutate = useMutation();
  const [reason, setReason] = useState<Reason>("SPAM");
  const [note, setNote] = useState("");
  const submit = async () => {
    if (!(await mutate(ReportMessageDocument, { messageId: message.id, reason, note: note.trim() || null }))) return;
    close();
    showToast("Thank you. The moderators see your report now.");
  };
  return (
    <Dialog title="Report this message" close={close}>
      <blockquote className="reported" dir="auto"><b>{sender.displayName}</b>{textOf(message)}</blockquote>
      <form onSubmit={(event) => (event.preventDefault(), void submit())}>
        <label>Why
          <select value={reason} onChange={(event) => setReason(event.target.value as Reason)}>
            {(Object.keys(REASONS) as Reason[]).map((each) => <option key={each} value={each}>{REASONS[each]}</option>)}
          </select>
        </label>
        <label>Note for the moderators, if you like<input value={note} maxLength={500} onChange={(event) => setNote(event.target.value)} /></label>
        <p className="hint">The moderators see your name. {sender.displayName} does not see that you report them.</p>
        <div className="dialog-buttons"><button type="button" className="button quiet" onClick={close}>Cancel</button><button className="button">Report</button></div>
      </form>
    </Dialog>
  );
}
