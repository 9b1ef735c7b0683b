import { useView } from "@confab/client/react";
import { useMemo, useState } from "react";

import { Avatar } from "../Avatar";
import { BlockedPeople } from "../blocking/BlockedPeople";
import { DevicesDialog } from "../account/DevicesDialog";
import { Icon } from "../Icon";
import { Menu } from "../Menu";
import { NewConversation } from "./NewConversation";
import { NewGroup } from "./NewGroup";
import { SearchButton } from "../search/buttons";
import { NotificationsDialog } from "../notifications/NotificationsDialog";
import { OwnStatus } from "../presence/OwnStatus";
import { SessionList } from "./SessionList";
import { ThemeSwitch } from "../account/ThemeSwitch";
import { plural } from "../format";
import { ThreadsLink } from "../threads/ThreadsLink";
import { OnlineCount } from "../workspaces/OnlineCount";
import { VoiceBar } from "../workspaces/VoiceBar";
import { WorkspacePane } from "../workspaces/WorkspacePane";
import { useApp } from "../appContext";

interface Props {
  workspaceId: string | null;
  subBiz: string | null;
  current: string | null;
  signOut: () => void;
}

export function Sidebar({ workspaceId, subBiz, current, signOut }: Props) {
  const [folder, setFolder] = useState<string | null>(null);
  const [dialog, setDialog] = useState<"conversation" | "group" | "devices" | "notifications" | "blocked" | "status" | "profile" | null>(null);
  const { client } = useApp();
  const me = useView(client.me);
  const folders = useView(client.categories);
  const folderIds = useMemo(() => folders.map(({ categoryId }) => categoryId), [folders]);
  // A folder disappears with its last session.
  const shown = folder !== null && folderIds.includes(folder) ? folder : null;

  if (workspaceId) {
    return (
      <nav className="sidebar" aria-label="Workspace">
        <WorkspacePane key={workspaceId} id={workspaceId} />
        <VoiceBar />
      </nav>
    );
  }
  return (
    <nav className="sidebar" aria-label="Sessions">
      {subBiz ? (
        <header>
          <a className="icon" href="#/" aria-label="Back to all sessions"><Icon name="back" /></a>
          <h1>{subBiz}</h1>
        </header>
      ) : (
        <header>
          {me ? <OwnStatus me={me} opened={dialog === "status" || dialog === "profile" ? dialog : null} open={setDialog} /> : <h1>Confab</h1>}
          <button className="icon" aria-label="New conversation" title="New conversation" onClick={() => setDialog("conversation")}><Icon name="pencil" /></button>
          <button className="icon" aria-label="New group" title="New group" onClick={() => setDialog("group")}><Icon name="group" /></button>
          <ThemeSwitch />
          <Menu label="More" items={[{ label: "Your profile", run: () => setDialog("profile") }, { label: "Notifications", run: () => setDialog("notifications") }, { label: "Devices", run: () => setDialog("devices") }, { label: "Blocked people", run: () => setDialog("blocked") }, { label: "Two devices", run: () => location.assign("?view=two") }, { label: "Sign out", run: signOut }]} />
        </header>
      )}
      {!subBiz && <SearchButton />}
      {!subBiz && folders.length > 0 && (
        <div className="folders" role="tablist" aria-label="Folders">
          {[null, ...folders].map((each) => (
            <button
              key={each?.categoryId ?? ""}
              role="tab"
              aria-selected={shown === (each?.categoryId ?? null)}
              tabIndex={shown === (each?.categoryId ?? null) ? 0 : -1}
              onClick={() => setFolder(each?.categoryId ?? null)}
              onKeyDown={(event) => {
                const way = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
                const tab = way && (event.currentTarget[way as "nextElementSibling"] as HTMLElement | null);
                if (tab) (tab.focus(), tab.click());
              }}
            >
              {each?.categoryId ?? "All"}
              {!!each?.unreadCount && (
                <span className="count">{each.unreadCount}<span className="sr-only"> {plural(each.unreadCount, "unread message").replace(/^\d+ /, "")}</span></span>
              )}
            </button>
          ))}
        </div>
      )}
      {!subBiz && !shown && <ThreadsLink />}
      {!subBiz && !shown && <WorkspaceLinks />}
      <SessionList key={`${subBiz} ${shown}`} subBiz={subBiz} categoryId={shown} folders={folderIds} current={current} start={setDialog} />
      <VoiceBar />
      {dialog === "notifications" && <NotificationsDialog close={() => setDialog(null)} />}
      {dialog === "blocked" && <BlockedPeople close={() => setDialog(null)} />}
      {dialog === "devices" && <DevicesDialog close={() => setDialog(null)} />}
      {dialog === "conversation" && <NewConversation close={() => setDialog(null)} />}
      {dialog === "group" && <NewGroup close={() => setDialog(null)} />}
    </nav>
  );
}

/** The user's workspaces: each opens its voice channels and members. */
function WorkspaceLinks() {
  const workspaces = useView(useApp().client.workspaces);
  if (!workspaces.length) return null;
  return (
    <ul className="workspace-links" aria-label="Workspaces">
      {workspaces.map(({ id, name, iconUrl, onlineCount }) => (
        <li key={id}>
          <a href={`#/w/${id}`}>
            <Avatar id={id} name={name} url={iconUrl} small />
            <span className="name">{name}</span>
            <small><OnlineCount count={onlineCount} /></small>
          </a>
        </li>
      ))}
    </ul>
  );
}
