import type { Token } from "@confab/client";
import { createClient, threadId } from "@confab/client";
import { ConfabProvider, useConnection, useView } from "@confab/client/react";
import { useEffect, useState } from "react";

import { openAnswers } from "../confab/answers";
import { openDeletions } from "../confab/deletions";
import { nameDevice, thisDevice } from "../confab/device";
import { openDrafts } from "../confab/drafts";
import { openPush } from "../confab/push";
import { openSearch } from "../confab/search";
import { openUploads } from "../confab/uploads";
import { loadPeople, storagePrefix, tokenSource, type Person } from "../signIn";
import logo from "../logo.svg";
import { Confirm } from "./Confirm";
import { Conversation } from "./Conversation";
import { textOf } from "./format";
import { ModerationPage } from "./moderation/ModerationPage";
import { ChannelView } from "./ChannelView";
import { go, isDisplayed, useRoute } from "./route";
import { SearchOverlay } from "./search/SearchOverlay";
import { Sidebar } from "./sessions/Sidebar";
import { UndoBar } from "./undo/UndoBar";
import { useUndo } from "./undo/useUndo";
import { ThreadInbox } from "./threads/ThreadInbox";
import { ThreadPanel } from "./threads/ThreadPanel";
import { useCovered } from "./threads/useCovered";
import { useConfirm } from "./useConfirm";
import { useLiveEvents, useApp, AppContext, type AppContextValue } from "./appContext";

/** An open dialog hides everything that is not a popover. */
const showOnTop = (toast: HTMLElement | null) => toast?.showPopover();

/** Opens everything for one user, and closes it when they sign out. */
export function Chat({ token, signedOut }: { token: Token; signedOut: (why: string) => void }) {
  const [app, setApp] = useState<Omit<AppContextValue, "people" | "showToast" | "confirm" | "offerUndo"> | null>(null);
  const [people, setPeople] = useState<Person[]>([]);
  const [toast, setToast] = useState("");
  const [confirmation, confirm] = useConfirm();
  const undoing = useUndo();

  useEffect(() => {
    const device = thisDevice(storagePrefix);
    const url = new URL("/graphql", location.href).href;
    const client = createClient({ url, tokens: tokenSource(token), device, storagePrefix, onSignedOut: signedOut });
    const answers = openAnswers(client);
    const deletions = openDeletions(client);
    const push = openPush(client, device, storagePrefix, {
      isOnScreen: (conversationId) => !document.hidden && document.hasFocus() && isDisplayed(conversationId),
      open: (conversationId) => conversationId && go({ conversationId }),
    });
    const search = openSearch(client.api);
    const afterFirstScreen = () => {
      if (client.sessions().get().status !== "ready") return;
      endFirst();
      void nameDevice(client.api, device, `${storagePrefix}.${token.userId}`);
      if (push.isWanted()) void push.refresh();
    };
    const endFirst = client.sessions().subscribe(afterFirstScreen);
    void loadPeople().then((all) => setPeople(all ?? []));
    const drafts = openDrafts(storagePrefix, token.userId);
    setApp({ me: token.userId, client, answers, deletions, device, drafts, push, search, uploads: openUploads(client) });
    return () => {
      endFirst();
      search.stop();
      push.stop();
      answers.stop();
      client.stop();
    };
  }, []);

  useEffect(() => {
    const timer = toast && setTimeout(() => setToast(""), 6000);
    return () => clearTimeout(timer || undefined);
  }, [toast]);

  if (!app) return null;
  return (
    <AppContext value={{ ...app, people, showToast: setToast, confirm, offerUndo: undoing.offer }}>
      <ConfabProvider client={app.client}>
        <Panes signOut={() => (undoing.settle(), void app.push.signOut().then(() => (app.client.forget(), app.drafts.clear(), signedOut(""))))} />
        {confirmation && <Confirm {...confirmation} />}
        <UndoBar {...undoing} />
        {toast && <p className="toast" role="alert" popover="manual" ref={showOnTop}>{toast}</p>}
      </ConfabProvider>
    </AppContext>
  );
}

function Panes({ signOut }: { signOut: () => void }) {
  const { workspaceId, moderation, threads, conversationId, threadSeq, subBiz, seq } = useRoute();
  const covered = useCovered();
  const connectionState = useConnection();
  useTotalInTitle();
  const isThreadOpen = conversationId !== null && threadSeq !== null;
  const shared = { subBiz, seq: isThreadOpen ? null : seq, threadSeq, covered };
  return (
    <div className="panes" data-open={conversationId || moderation || threads ? "" : undefined} data-thread={isThreadOpen ? "" : undefined} data-connection={connectionState}>
      <Sidebar workspaceId={workspaceId} subBiz={subBiz} current={conversationId} signOut={signOut} />
      {workspaceId && moderation ? (
        <ModerationPage key={workspaceId} workspaceId={workspaceId} />
      ) : threads ? (
        <ThreadInbox workspaceId={workspaceId} />
      ) : conversationId?.startsWith("c_") ? (
        <ChannelView key={conversationId} id={conversationId} workspaceId={workspaceId} {...shared} />
      ) : conversationId ? (
        <Conversation key={conversationId} id={conversationId} {...shared} />
      ) : (
        <main className="nothing-open">
          <img src={logo} alt="" width="72" height="72" />
          <h2>{workspaceId ? "Pick a channel" : "Pick a conversation"}</h2>
          <p>Open this page on a second device, or <a href="?view=two">two side by side</a>: both show the same.</p>
        </main>
      )}
      {isThreadOpen && (
        <ThreadPanel
          key={threadId(conversationId, threadSeq)}
          conversationId={conversationId}
          threadSeq={threadSeq}
          seq={seq}
          workspaceId={workspaceId}
          subBiz={subBiz}
        />
      )}
      <SearchOverlay />
      <OfflineBanner />
      <Announcer />
    </div>
  );
}

/** Displayed if the connection is lost for longer than a moment. */
function OfflineBanner() {
  const offline = useView(useApp().client.isOffline);
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(offline), offline ? 600 : 0);
    return () => clearTimeout(timer);
  }, [offline]);
  return shown ? <p className="offline" role="status">Offline. Your messages are kept, and sent when the network is back.</p> : null;
}

/** Announces incoming messages of all conversations to screen readers. */
function Announcer() {
  const { me } = useApp();
  const [announcement, setAnnouncement] = useState("");
  useLiveEvents((event) => {
    if (event.__typename === "MessageCreated" && event.message.sender.id !== me)
      setAnnouncement(`${event.message.sender.displayName}: ${textOf(event.message)}`);
  });
  return <div className="sr-only" aria-live="polite">{announcement}</div>;
}

const FAVICON = (dot: boolean) =>
  `data:image/svg+xml,${encodeURIComponent(
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="18" fill="#0f766e"/><path d="M14 20a7 7 0 0 1 7-7h22a7 7 0 0 1 7 7v14a7 7 0 0 1-7 7H29l-10 9v-9a6 6 0 0 1-5-6z" fill="#fff"/>${
      dot ? '<circle cx="51" cy="13" r="12" fill="#ef4444"/>' : ""
    }</svg>`,
  )}`;

function useTotalInTitle() {
  const { totalUnread: total } = useView(useApp().client.sessions());
  useEffect(() => {
    document.title = total ? `(${total}) Confab` : "Confab";
    document.querySelector<HTMLLinkElement>("link[rel=icon]")!.href = FAVICON(total > 0);
  }, [total]);
}
