import { useEffect, useState, useSyncExternalStore } from "react";
import { Provider } from "urql";

import { threadId } from "../../../client/src/ids";
import { openBlocks } from "../confab/blocks";
import { connect, type Token } from "../confab/client";
import { openDeletions } from "../confab/deletions";
import { nameDevice, thisDevice } from "../confab/device";
import { openOutbox } from "../confab/outbox";
import { openPresences } from "../confab/presence";
import { openPush } from "../confab/push";
import { openSearch } from "../confab/search";
import { startSync } from "../confab/sync";
import { openUploads } from "../confab/uploads";
import { openWorkspaces } from "../confab/workspaces";
import { TotalDocument } from "../gql";
import { people, place, tokensOf, type Person } from "../signIn";
import logo from "../logo.svg";
import { Confirm } from "./Confirm";
import { Conversation } from "./Conversation";
import { textOf } from "./format";
import { ModerationPage } from "./moderation/ModerationPage";
import { Room } from "./Room";
import { go, isDisplayed, useRoute } from "./route";
import { SearchOverEverything } from "./search/SearchOverEverything";
import { Sidebar } from "./Sidebar";
import { UndoBar } from "./undo/UndoBar";
import { useUndo } from "./undo/useUndo";
import { ThreadInbox } from "./threads/ThreadInbox";
import { ThreadPanel } from "./threads/ThreadPanel";
import { useCovered } from "./threads/useCovered";
import { useConfirm } from "./useConfirm";
import { useAsked, useLiveEvents, useScreen, useTyping, useWorld, WorldContext, type World } from "./world";

/** An open dialog hides everything that is not a popover. */
const showOnTop = (toast: HTMLElement | null) => toast?.showPopover();

/** Opens everything for one user, and closes it when they sign out. */
export function Chat({ token, signedOut }: { token: Token; signedOut: (why: string) => void }) {
  const [world, setWorld] = useState<Omit<World, "people" | "tell" | "confirm" | "offerUndo"> | null>(null);
  const [tokens] = useState(() => tokensOf(token));
  const [cast, setCast] = useState<Person[]>([]);
  const [trouble, setTrouble] = useState("");
  const [asked, confirm] = useConfirm();
  const undoing = useUndo();
  const [connections, setConnections] = useState(0);

  useEffect(() => {
    const device = thisDevice(place);
    const connection = connect(tokens, device, {
      loadScreen: () => sync.loadScreen(),
      signedOut,
      startOver: () => setConnections((count) => count + 1),
    });
    const sync = startSync(connection, token.userId);
    const outbox = openOutbox(connection.client, `${place}.${token.userId}`);
    const uploads = openUploads(connection.client, outbox);
    const blocks = openBlocks(connection.client);
    const deletions = openDeletions(connection.client);
    const presences = openPresences(connection.client);
    const push = openPush(connection.client, device, place, token.userId, {
      isLookedAt: (conversationId) => !document.hidden && document.hasFocus() && isDisplayed(conversationId),
      open: (conversationId) => conversationId && go({ conversationId }),
    });
    const workspaces = openWorkspaces(connection.client, sync, token.userId, place);
    const search = openSearch(connection.client);
    const offChange = connection.onChange(() => connection.state().connected && (outbox.wake(), uploads.wake()));
    const offScreen = sync.onScreen(() => sync.screen() === "there" && (void blocks.load(), void nameDevice(connection.client, device, `${place}.${token.userId}`), push.isWanted() && void push.refresh()));
    void people().then((all) => setCast(all ?? []));
    setWorld({ me: token.userId, client: connection.client, connection, sync, outbox, blocks, deletions, uploads, device, presences, push, workspaces, search });
    return () => {
      offScreen();
      offChange();
      search.stop();
      workspaces.stop();
      push.stop();
      presences.stop();
      uploads.stop();
      outbox.stop();
      blocks.stop();
      sync.stop();
      connection.close();
    };
  }, [connections]);

  useEffect(() => {
    const timer = trouble && setTimeout(() => setTrouble(""), 6000);
    return () => clearTimeout(timer || undefined);
  }, [trouble]);

  if (!world) return null;
  return (
    <WorldContext value={{ ...world, people: cast, tell: setTrouble, confirm, offerUndo: undoing.offer }}>
      <Provider value={world.client}>
        <Panes leave={() => (undoing.settle(), void world.push.signOut().then(() => signedOut("")))} />
        {asked && <Confirm {...asked} />}
        <UndoBar {...undoing} />
        {trouble && <p className="toast" role="alert" popover="manual" ref={showOnTop}>{trouble}</p>}
      </Provider>
    </WorldContext>
  );
}

function Panes({ leave }: { leave: () => void }) {
  const { workspaceId, moderation, threads, conversationId, threadSeq, subBiz, seq } = useRoute();
  const covered = useCovered();
  const typing = useTyping();
  const { connection } = useWorld();
  const connectionState = useSyncExternalStore(connection.onChange, () => connection.state().connection);
  useTotalInTitle();
  const isThreadOpen = conversationId !== null && threadSeq !== null;
  const shared = { subBiz, seq: isThreadOpen ? null : seq, threadSeq, covered };
  return (
    <div className="panes" data-open={conversationId || moderation || threads ? "" : undefined} data-thread={isThreadOpen ? "" : undefined} data-connection={connectionState}>
      <Sidebar workspaceId={workspaceId} subBiz={subBiz} current={conversationId} typing={typing} leave={leave} />
      {workspaceId && moderation ? (
        <ModerationPage key={workspaceId} workspaceId={workspaceId} />
      ) : threads ? (
        <ThreadInbox workspaceId={workspaceId} />
      ) : conversationId?.startsWith("c_") ? (
        <Room key={conversationId} id={conversationId} workspaceId={workspaceId} {...shared} />
      ) : conversationId ? (
        <Conversation key={conversationId} id={conversationId} {...shared} typing={typing(conversationId)} />
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
          typing={typing(threadId(conversationId, threadSeq))}
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
  const { connection } = useWorld();
  const offline = useSyncExternalStore(connection.onChange, () => !connection.state().connected && connection.state().failures > 0);
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
  const total = useAsked({ query: TotalDocument, pause: useScreen() !== "there" })[0].data?.totalUnread ?? 0;
  useEffect(() => {
    document.title = total ? `(${total}) Confab` : "Confab";
    document.querySelector<HTMLLinkElement>("link[rel=icon]")!.href = FAVICON(total > 0);
  }, [total]);
}
