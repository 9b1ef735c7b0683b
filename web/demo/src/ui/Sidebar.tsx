import { useState } from "react";

import { FoldersDocument, MeDocument } from "../gql";
import { Avatar } from "./Avatar";
import { Icon } from "./Icon";
import { Menu } from "./Menu";
import { NewConversation } from "./NewConversation";
import { NewGroup } from "./NewGroup";
import { SessionList } from "./SessionList";
import { ThemeSwitch } from "./ThemeSwitch";
import { plural } from "./format";
import { useAsked, useScreen } from "./world";

interface Props {
  subBiz: string | null;
  current: string | null;
  typing: (conversationId: string) => string;
  leave: () => void;
}

export function Sidebar({ subBiz, current, typing, leave }: Props) {
  const [folder, setFolder] = useState<string | null>(null);
  const [dialog, setDialog] = useState<"conversation" | "group" | null>(null);
  const screen = useScreen();
  const me = useAsked({ query: MeDocument, pause: screen !== "there" })[0].data?.me;
  const folders = useAsked({ query: FoldersDocument })[0].data?.sessionCategories ?? [];
  // A folder disappears with its last session.
  const shown = folders.some(({ categoryId }) => categoryId === folder) ? folder : null;

  return (
    <nav className="sidebar" aria-label="Sessions">
      {subBiz ? (
        <header>
          <a className="icon" href="#/" aria-label="Back to all sessions"><Icon name="back" /></a>
          <h1>{subBiz}</h1>
        </header>
      ) : (
        <header>
          {me && <Avatar id={me.id} name={me.displayName} url={me.avatarUrl} small />}
          <h1>{me?.displayName ?? "Confab"}</h1>
          <button className="icon" aria-label="New conversation" title="New conversation" onClick={() => setDialog("conversation")}><Icon name="pencil" /></button>
          <button className="icon" aria-label="New group" title="New group" onClick={() => setDialog("group")}><Icon name="group" /></button>
          <ThemeSwitch />
          <Menu label="More" items={[{ label: "Two devices", run: () => location.assign("?view=two") }, { label: "Sign out", run: leave }]} />
        </header>
      )}
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
      <SessionList key={`${subBiz} ${shown}`} subBiz={subBiz} categoryId={shown} folders={folders.map((each) => each.categoryId)} current={current} typing={typing} />
      {dialog === "conversation" && <NewConversation close={() => setDialog(null)} />}
      {dialog === "group" && <NewGroup close={() => setDialog(null)} />}
    </nav>
  );
}
