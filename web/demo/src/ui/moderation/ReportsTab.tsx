import { isErased } from "@confab/client";
import { useState } from "react";

import { ReportsDocument, ResolveReportDocument, type Permission, type ReportPartsFragment } from "../../gql";
import { Avatar } from "../Avatar";
import { Icon } from "../Icon";
import { Menu } from "../Menu";
import { nameOf } from "../presence/usePresence";
import { pathTo } from "../route";
import { useAttempt, useMutation } from "../useMutation";
import { useApp } from "../appContext";
import { List } from "./List";
import type { May } from "./rights";
import { usePages } from "./usePages";
import { reportedUser, OUTCOMES, REASONS, when, type Outcome } from "./format";

interface Action {
  outcome: Outcome;
  label: string;
  right: Permission;
  /** The question. */
  title: (name: string) => string;
  /** What happens, with the person's name. */
  text: (name: string) => string;
  verb: string;
}

const ACTIONS: Action[] = [
  { outcome: "RECALL", label: "Recall the message", right: "MANAGE_MESSAGES", title: (name) => `Recall the message of ${name}?`, text: () => "Nobody can read it any more. The report keeps its text.", verb: "Recall" },
  { outcome: "TIMEOUT", label: "Time out for a day", right: "TIMEOUT_MEMBERS", title: (name) => `Time out ${name} for a day?`, text: (name) => `${name} can read, but not write, react or speak.`, verb: "Time out" },
  { outcome: "KICK", label: "Remove from the workspace", right: "KICK_MEMBERS", title: (name) => `Remove ${name}?`, text: (name) => `${name} can come back with an invitation, or at once if the workspace is open.`, verb: "Remove" },
  { outcome: "BAN", label: "Ban", right: "BAN_MEMBERS", title: (name) => `Ban ${name}?`, text: (name) => `${name} is removed, and cannot join again until you lift the ban.`, verb: "Ban" },
];

/** Outcomes that the list of members shows. */
const MEMBERSHIP: ReadonlySet<Outcome> = new Set(["TIMEOUT", "KICK", "BAN"]);

const STATES = { OPEN: "Open", RESOLVED: "Resolved" } as const;

/** What members reported, and what was done about it. */
export function ReportsTab({ workspaceId, may }: { workspaceId: string; may: May }) {
  const [state, setState] = useState<keyof typeof STATES>("OPEN");
  const pages = usePages(ReportsDocument, { workspaceId, state }, ({ reports }) => reports);
  return (
    <>
      <div className="moderation-filters" role="group" aria-label="State">
        {(Object.keys(STATES) as (keyof typeof STATES)[]).map((each) => (
          <button key={each} className="chip" aria-pressed={state === each} onClick={() => setState(each)}>{STATES[each]}</button>
        ))}
      </div>
      <List
        label="Reports"
        pages={pages}
        empty={state === "OPEN" ? ["All done", "Nothing that members reported is open."] : ["Nothing yet", "Resolved reports are listed here."]}
      >
        {(report) => (
          <ReportItem key={report.id} workspaceId={workspaceId} report={report} may={may} resolved={() => pages.change(({ id }) => id === report.id, null)} />
        )}
      </List>
    </>
  );
}

function ReportItem({ workspaceId, report, may, resolved }: { workspaceId: string; report: ReportPartsFragment; may: May; resolved: () => void }) {
  const { client, confirm, me } = useApp();
  const mutate = useMutation();
  const attempt = useAttempt();
  const [busy, setBusy] = useState(false);
  const person = reportedUser(report);
  const resolve = async (action: Outcome) => {
    setBusy(true);
    const done = await mutate(ResolveReportDocument, { reportId: report.id, action });
    setBusy(false);
    if (!done) return;
    if (MEMBERSHIP.has(action)) void attempt(client.reloadWorkspaces());
    resolved();
    // The button with the focus is gone.
    document.getElementById("moderation-panel")?.focus();
  };
  const ask = async ({ outcome, title, text, verb }: Action) => {
    const name = person ? nameOf(person) : "the author";
    if (await confirm({ title: title(name), text: text(name), verb })) await resolve(outcome);
  };
  const fits = ({ outcome, right }: Action) => may(right) && (outcome === "RECALL" ? report.message?.state === "NORMAL" : person !== null && person.id !== me && !isErased(person.id));
  const actions = report.state === "OPEN" ? ACTIONS.filter(fits) : [];
  const action = report.state === "RESOLVED" ? (report.action ?? "NONE") : null;
  return (
    <li className="report" data-report={report.id}>
      <header>
        {person && <Avatar id={person.id} name={nameOf(person)} url={person.avatarUrl} small />}
        <div>
          <b>{person ? nameOf(person) : "Unknown author"}</b>
          <small>Reported by {nameOf(report.reporter)} · <time dateTime={report.createdAt}>{when(report.createdAt)}</time></small>
        </div>
        <span className="tag warn">{REASONS[report.reason]}</span>
      </header>
      {report.text !== null && report.text !== undefined && <blockquote className="reported" dir="auto">{report.text || <i>No text</i>}</blockquote>}
      {report.attachment && <p className="reported-file"><Icon name="file" /> {report.attachment.filename}</p>}
      {report.note && <p className="note">{nameOf(report.reporter)}: “{report.note}”</p>}
      <footer>
        {report.message && report.message.state !== "RECALLED" && <a href={pathTo({ workspaceId, conversationId: report.message.conversationId, seq: report.message.seq })}>Show in channel</a>}
        {action ? (
          <small className="outcome"><Icon name="shield" /> {OUTCOMES[action]}{report.resolvedBy && ` by ${nameOf(report.resolvedBy)}`}</small>
        ) : (
          <span className="dialog-buttons">
            <button className="button quiet" disabled={busy} onClick={() => void resolve("NONE")}>Close without action</button>
            {actions.length > 0 && <Menu label="Act on this report" text="Act" disabled={busy} items={actions.map((action) => ({ label: action.label, danger: action.outcome === "BAN" || action.outcome === "KICK", run: () => void ask(action) }))} />}
          </span>
        )}
      </footer>
    </li>
  );
}
