import type { User } from "@confab/client";
import { useState } from "react";
import { createPortal } from "react-dom";

import { BanUserDocument, KickMemberDocument, TimeoutMemberDocument } from "../../gql";
import { Dialog } from "../Dialog";
import { Menu, type MenuItem } from "../Menu";
import { useMutation } from "../useMutation";
import { useApp } from "../appContext";
import type { May } from "./rights";
import { reloadModerationLists } from "./usePages";

const DURATIONS = [
  ["10 minutes", 600],
  ["1 hour", 3_600],
  ["1 day", 86_400],
  ["1 week", 604_800],
] as const;

const DELETED = [
  ["None", 0],
  ["Those of the last hour", 3_600],
  ["Those of the last day", 86_400],
  ["Those of the last 7 days", 604_800],
] as const;

const inSeconds = (now: number, seconds: number) => (seconds ? new Date(now + seconds * 1000).toISOString() : null);

interface Props {
  workspaceId: string;
  user: User;
  timedOut: boolean;
  may: May;
  /** Called after a change of the members. */
  changed: () => void;
}

/** The menu of a member, for moderators. */
export function MemberActions({ workspaceId, user, timedOut, may, changed }: Props) {
  const { confirm } = useApp();
  const mutate = useMutation();
  const [dialog, setDialog] = useState<"timeout" | "ban" | null>(null);
  const member = { workspaceId, userId: user.id };
  const kick = async () => {
    const question = { title: `Remove ${user.displayName}?`, text: "They can come back with an invitation.", verb: "Remove" };
    if ((await confirm(question)) && (await mutate(KickMemberDocument, member))) done();
  };
  const endTimeout = async () => void ((await mutate(TimeoutMemberDocument, { ...member, until: null })) && done());
  const items: MenuItem[] = [
    ...(may("TIMEOUT_MEMBERS") ? [timedOut ? { label: "End time-out", run: () => void endTimeout() } : { label: "Time out…", run: () => setDialog("timeout") }] : []),
    ...(may("KICK_MEMBERS") ? [{ label: "Remove", danger: true, run: () => void kick() }] : []),
    ...(may("BAN_MEMBERS") ? [{ label: "Ban…", danger: true, run: () => setDialog("ban") }] : []),
  ];
  const done = () => (reloadModerationLists(), changed());
  const shown = { ...member, name: user.displayName, close: () => setDialog(null), done };
  if (!items.length) return null;
  return (
    <>
      <Menu label={`Moderate ${user.displayName}`} items={items} />
      {dialog && createPortal(dialog === "ban" ? <BanDialog {...shown} /> : <TimeoutDialog {...shown} />, document.body)}
    </>
  );
}

interface DialogProps {
  workspaceId: string;
  userId: string;
  name: string;
  close: () => void;
  done: () => void;
}

function TimeoutDialog({ workspaceId, userId, name, close, done }: DialogProps) {
  const mutate = useMutation();
  const { client } = useApp();
  const [seconds, setSeconds] = useState<number>(3_600);
  const [reason, setReason] = useState("");
  const submit = async () => {
    if (!(await mutate(TimeoutMemberDocument, { workspaceId, userId, until: inSeconds(client.api.now(), seconds), reason: reason.trim() || null }))) return;
    close();
    done();
  };
  return (
    <Dialog title={`Time out ${name}`} close={close}>
      <form onSubmit={(event) => (event.preventDefault(), void submit())}>
        <p className="hint">They can read, but not write, react or speak until it ends.</p>
        <label>How long
          <select value={seconds} onChange={(event) => setSeconds(Number(event.target.value))}>
            {DURATIONS.map(([label, value]) => <option key={value} value={value}>{label}</option>)}
          </select>
        </label>
        <ReasonField value={reason} change={setReason} />
        <div className="dialog-buttons"><button type="button" className="button quiet" onClick={close}>Cancel</button><button className="button">Time out</button></div>
      </form>
    </Dialog>
  );
}

function BanDialog({ workspaceId, userId, name, close, done }: DialogProps) {
  const mutate = useMutation();
  const { client } = useApp();
  const [seconds, setSeconds] = useState(0);
  const [deleteSeconds, setDeleteSeconds] = useState<number>(0);
  const [reason, setReason] = useState("");
  const submit = async () => {
    if (!(await mutate(BanUserDocument, { workspaceId, userId, until: inSeconds(client.api.now(), seconds), deleteSeconds, reason: reason.trim() || null }))) return;
    close();
    done();
  };
  return (
    <Dialog title={`Ban ${name}`} close={close}>
      <form onSubmit={(event) => (event.preventDefault(), void submit())}>
        <p className="hint">They leave the workspace at once, and cannot join again.</p>
        <label>How long
          <select value={seconds} onChange={(event) => setSeconds(Number(event.target.value))}>
            <option value={0}>Until you lift the ban</option>
            {DURATIONS.slice(2).map(([label, value]) => <option key={value} value={value}>{label}</option>)}
          </select>
        </label>
        <label>Messages to recall
          <select value={deleteSeconds} onChange={(event) => setDeleteSeconds(Number(event.target.value))}>
            {DELETED.map(([label, value]) => <option key={value} value={value}>{label}</option>)}
          </select>
        </label>
        <ReasonField value={reason} change={setReason} />
        <div className="dialog-buttons"><button type="button" className="button quiet" onClick={close}>Cancel</button><button className="button destructive">Ban</button></div>
      </form>
    </Dialog>
  );
}

function ReasonField({ value, change }: { value: string; change: (text: string) => void }) {
  return <label>Reason, shown to other moderators<input value={value} maxLength={500} onChange={(event) => change(event.target.value)} /></label>;
}
