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
import { people, place, tokensOf, type Person } from "../signIn";
import logo from "../logo.svg";
import { Confirm } from "./Confirm";
import { Conversation } from "./Conversation";
import { textOf } from "./format";
import { ModerationPage } from "./moderation/ModerationPage";
import { Room } from "./Room";
import { go, isDisplayed, useRoute } from "./route";
import { SearchOverEverything } from "./search/SearchOverEverything";
import { Sidebar } from "./sessions/Sidebar";
import { UndoBar } from "./undo/UndoBar";
import { useUndo } from "./undo/useUndo";
import { ThreadInbox } from "./threads/ThreadInbox";
import { ThreadPanel } from "./threads/ThreadPanel";
import { useCovered } from "./threads/useCovered";
import { useConfirm } from "./useConfirm";
import { useLiveEvents, useWorld, WorldContext, type World } from "./world";

/** An open dialog hides everything that is not a popover. */
const showOnTop = (toast: HTMLElement | null) => toast?.showPopover();

/** Opens everything for one user, and closes it when they sign out. */
export function Chat({ token, signedOut }: { token: Token; signedOut: (why: string) => void }) {
  const [world, setWorld] = useState<Omit<World, "people" | "tell" | "confirm" | "offerUndo"> | null>(null);
  const [cast, setCast] = useState<Person[]>([]);
  const [trouble, setTrouble] = useState("");
  const [asked, confirm] = useConfirm();
  const undoing = useUndo();

  useEffect(() => {
    const device = thisDevice(place);
    const url = new URL("/graphql", location.href).href;
    const client = createClient({ url, tokens: tokensOf(token), device, storagePrefix: place, onSignedOut: signedOut });
    const answers = openAnswers(client);
    const deletions = openDeletions(client);
    const push = openPush(client, device, place, {
      isLookedAt: (conversationId) => !document.hidden && document.hasFocus() && isDisplayed(conversationId),
      open: (conversationId) => conversationId && go({ conversationId }),
    });
    const search = openSearch(client.api);
    const afterFirstScreen = () => {
      if (client.sessions().get().status !== "ready") return;
      endFirst();
      void nameDevice(client.api, device, `${place}.${token.userId}`);
      if (push.isWanted()) void push.refresh();
    };
    const endFirst = client.sessions().subscribe(afterFirstScreen);
    void people().then((all) => setCast(all ?? []));
    const drafts = openDrafts(place, token.userId);
    setWorld({ me: token.userId, client, answers, deletions, device, drafts, push, search, uploads: openUploads(client) });
    return () => {
      endFirst();
      search.stop();
      push.stop();
      answers.stop();
      client.stop();
    };
  }, []);

  useEffect(() => {
    const timer = trouble && setTimeout(() => setTrouble(""), 6000);
    return () => clearTimeout(timer || undefined);
  }, [trouble]);

  if (!world) return null;
  return (
    <WorldContext value={{ ...world, people: cast, tell: setTrouble, confirm, offerUndo: undoing.offer }}>
      <ConfabProvider client={world.client}>
        <Panes leave={() => (undoing.settle(), void world.push.signOut().then(() => (world.client.forget(), world.drafts.forget(), signedOut(""))))} />
        {asked && <Confirm {...asked} />}
        <UndoBar {...undoing} />
        {trouble && <p className="toast" role="alert" popover="manual" ref={showOnTop}>{trouble}</p>}
      </ConfabProvider>
    </WorldContext>
  );
}

function Panes({ leave }: { leave: () => void }) {
  const { workspaceId, moderation, threads, conversationId, threadSeq, subBiz, seq } = useRoute();
  const covered = useCovered();
  const connectionState = useConnection();
  useTotalInTitle();
  const isThreadOpen = conversationId !== null && threadSeq !== null;
  const shared = { subBiz, seq: isThreadOpen ? null : seq, threadSeq, covered };
  return (
    <div className="panes" data-open={conversationId || moderation || threads ? "" : undefined} data-thread={isThreadOpen ? "" : undefined} data-connection={connectionState}>
      <Sidebar workspaceId={workspaceId} subBiz={subBiz} current={conversationId} leave={leave} />
      {workspaceId && moderation ? (
        <ModerationPage key={workspaceId} workspaceId={workspaceId} />
      ) : threads ? (
        <ThreadInbox workspaceId={workspaceId} />
      ) : conversationId?.startsWith("c_") ? (
        <Room key={conversationId} id={conversationId} workspaceId={workspaceId} {...shared} />
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
      <SearchOverEverything />
      <OfflineBanner />
      <Announcer />
    </div>
  );
}

/** Displayed if the connection is lost for longer than a moment. */
function OfflineBanner() {
  const offline = useView(useWorld().client.isOffline);
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(offline), offline ? 600 : 0);
    return () => clearTimeout(timer);
  }, [offline]);
  return shown ? <p className="offline" role="status">Offline. Your messages are kept, and sent when the network is back.</p> : null;
}

/** Announces incoming messages of all conversations to screen readers. */
function Announcer() {
  const { me } = useWorld();
  const [said, setSaid] = useState("");
  useLiveEvents((event) => {
    if (event.__typename === "MessageCreated" && event.message.sender.id !== me)
      setSaid(`${event.message.sender.displayName}: ${textOf(event.message)}`);
  });
  return <div className="sr-only" aria-live="polite">{said}</div>;
}

const FAVICON = (dot: boolean) =>
  `data:image/svg+xml,${encodeURIComponent(
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="18" fill="#0f766e"/><path d="M14 20a7 7 0 0 1 7-7h22a7 7 0 0 1 7 7v14a7 7 0 0 1-7 7H29l-10 9v-9a6 6 0 0 1-5-6z" fill="#fff"/>${
      dot ? '<circle cx="51" cy="13" r="12" fill="#ef4444"/>' : ""
    }</svg>`,
  )}`;

function useTotalInTitle() {
  const { totalUnread: total } = useView(useWorld().client.sessions());
  useEffect(() => {
    document.title = total ? `(${total}) Confab` : "Confab";
    document.querySelector<HTMLLinkElement>("link[rel=icon]")!.href = FAVICON(total > 0);
  }, [total]);
}
