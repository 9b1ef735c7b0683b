import { useState } from "react";

import { ModeratorRightsDocument } from "../../gql";
import { Icon } from "../Icon";
import { BackButton } from "../search/buttons";
import { go } from "../route";
import { useAnswer, useApp } from "../appContext";
import { AuditTab } from "./AuditTab";
import { BansTab } from "./BansTab";
import { ReportsTab } from "./ReportsTab";
import { rightsFrom } from "./rights";

const TABS = [
  ["reports", "Reports", "VIEW_REPORTS"],
  ["bans", "Bans", "BAN_MEMBERS"],
  ["log", "Audit log", "VIEW_AUDIT_LOG"],
] as const;

/** Reports, bans and the audit log of a workspace, as far as the user may see them. */
export function ModerationPage({ workspaceId }: { workspaceId: string }) {
  const { answers } = useApp();
  const { data, error } = useAnswer(ModeratorRightsDocument, { id: workspaceId });
  const [chosen, choose] = useState<string | null>(null);
  const may = rightsFrom(data?.workspace?.viewerPermissions);
  const tabs = TABS.filter(([, , right]) => may(right));
  const tab = tabs.find(([key]) => key === chosen)?.[0] ?? tabs[0]?.[0];
  return (
    <main className="conversation moderation" aria-label="Moderation" onKeyDown={(event) => event.key === "Escape" && go({ workspaceId })}>
      <header>
        <BackButton leave={() => go({ workspaceId })} />
        <span className="device-sign" aria-hidden="true"><Icon name="shield" /></span>
        <div className="about">
          <h2>Moderation</h2>
          <p>{data?.workspace?.name ?? ""}</p>
        </div>
      </header>
      {!data && !error && <div className="moderation-panel skeletons" role="status" aria-label="Loading">{[1, 2, 3].map((each) => <i key={each} />)}</div>}
      {error && !data && <p className="moderation-note" role="alert">The page didn't load. <button className="link" onClick={() => answers.refresh(ModeratorRightsDocument)}>Try again</button></p>}
      {data && !tabs.length && <div className="moderation-note"><b>Nothing for you here</b>Reports, bans and the audit log are for members with the rights to see them.</div>}
      {tabs.length > 0 && (
        <div className="moderation-tabs" role="tablist" aria-label="Moderation">
          {tabs.map(([key, label]) => (
            <button
              key={key}
              id={`tab-${key}`}
              role="tab"
              aria-selected={key === tab}
              aria-controls="moderation-panel"
              tabIndex={key === tab ? 0 : -1}
              onClick={() => choose(key)}
              onKeyDown={(event) => {
                const way = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
                const other = way && (event.currentTarget[way as "nextElementSibling"] as HTMLElement | null);
                if (other) (other.focus(), other.click());
              }}
            >
              {label}
            </button>
          ))}
        </div>
      )}
      {tab && data?.workspace && (
        <section className="moderation-panel" id="moderation-panel" role="tabpanel" tabIndex={0} aria-labelledby={`tab-${tab}`}>
          {tab === "reports" && <ReportsTab workspaceId={workspaceId} may={may} />}
          {tab === "bans" && <BansTab workspaceId={workspaceId} />}
          {tab === "log" && <AuditTab workspace={data.workspace} />}
        </section>
      )}
    </main>
  );
}
