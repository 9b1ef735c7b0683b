/**
 * The displayed view, in the address: #/c/<conversation>, #/c/<conversation>/<seq>, #/b/<subBiz>, #/b/<subBiz>/c/<conversation>, and
 * with #/w/<workspace> too. #/…/c/<conversation>/t/<seq> has the thread of that message open next to the conversation, and
 * #/…/c/<conversation>/t/<seq>/<seq> is at a reply. #/threads are the followed threads, and #/w/<workspace>/moderation is its moderation
 * page. The search dialog is an entry of the browser's history, so that "back" returns to its results.
 */
import { threadId, threadIn, THREADS } from "@confab/client";
import { useSyncExternalStore } from "react";


export interface Route {
  workspaceId: string | null;
  /** The moderation page of the workspace. */
  moderation: boolean;
  /** The list of followed threads. */
  threads: boolean;
  subBiz: string | null;
  /** In an argument, it may also be a thread's: that opens the thread next to its conversation. */
  conversationId: string | null;
  /** The message whose thread is open next to the conversation. */
  threadSeq: number | null;
  /** The message to show: in the thread, if one is open. */
  seq: number | null;
}

/** The state of an entry of the browser's history. */
export interface Entry {
  /** Position among the entries that have a state; a later one has a higher number. */
  number: number;
  /** The search dialog is open. */
  search?: boolean;
  /** Opened from a result of the search, which is the entry before. */
  isResult?: boolean;
  /** Opened from the list of followed threads. */
  isFromThreads?: boolean;
  /** The message that was in the middle of the screen when this entry was left; 0: the newest message was on the screen. */
  seqOnScreen?: number;
}

const NO_STATE: Entry = { number: 0 };

/** Ids of conversations consist of characters that an address may contain, percent signs included: they are neither encoded nor decoded. */
export const pathTo = ({ workspaceId, moderation, threads, subBiz, conversationId, threadSeq, seq }: Partial<Route>): string => {
  const thread = conversationId ? threadIn(conversationId) : null;
  if (thread) return pathTo({ workspaceId, subBiz, conversationId: thread.conversationId, threadSeq: thread.seq, seq });
  const page = moderation ? "moderation" : threads ? "threads" : "";
  const position = conversationId ? `c/${conversationId}${threadSeq == null ? "" : `/t/${threadSeq}`}${seq == null ? "" : `/${seq}`}` : "";
  return `#/${workspaceId ? `w/${workspaceId}/` : ""}${page}${subBiz ? `b/${encodeURIComponent(subBiz)}/` : ""}${position}`;
};

/** At once, not with the browser's next event: a closed view must not see later changes. */
const changed = () => dispatchEvent(new HashChangeEvent("hashchange"));

export const entryNow = () => (history.state as Entry | null) ?? NO_STATE;

const push = (state: Omit<Entry, "number">, address: string) => {
  history.pushState({ ...state, number: entryNow().number + 1 } satisfies Entry, "", address);
  changed();
};

export const go = (route: Partial<Route>, state: Omit<Entry, "number"> = {}) => {
  if (pathTo(route) !== location.hash) push(state, pathTo(route));
};

/** Closes the thread that is open next to the conversation. Returns false if there is none. */
export const closeThread = () => {
  const { workspaceId, subBiz, conversationId, threadSeq } = routeOf(location.hash);
  if (threadSeq !== null) go({ workspaceId, subBiz, conversationId });
  return threadSeq !== null;
};

export const openSearchDialog = () => {
  if (!entryNow().search) push({ search: true }, location.hash);
};

export const closeSearchDialog = () => {
  if (!entryNow().search) return;
  // Frames share one history: the entry before may be another frame's.
  if (window === window.top) return history.back();
  history.replaceState({ number: entryNow().number } satisfies Entry, "");
  changed();
};

/** Leaves the search dialog for one of its results. seqOnScreen: where "back" returns to in the view behind the dialog. */
export const goToResult = (route: Partial<Route>, seqOnScreen: number | null) => {
  const { seqOnScreen: _, ...search } = entryNow();
  history.replaceState({ ...search, ...(seqOnScreen !== null && { seqOnScreen }) }, "");
  push({ isResult: true }, pathTo(route));
};

const EVENTS = ["hashchange", "popstate"] as const;
const watch = (listener: () => void) => {
  EVENTS.forEach((each) => addEventListener(each, listener));
  return () => EVENTS.forEach((each) => removeEventListener(each, listener));
};

/** Addresses are typed by hand, too: one that cannot be decoded names nothing. */
function plain(part: string | undefined): string | null {
  try {
    return part ? decodeURIComponent(part) : null;
  } catch {
    return part!;
  }
}

export const useRoute = () => routeOf(useSyncExternalStore(watch, () => location.hash));

/** Outside of rendering: whether this conversation or thread is displayed at this moment. */
export const isDisplayed = (id: string) => {
  const { conversationId, threadSeq } = routeOf(location.hash);
  return id === conversationId || (conversationId !== null && threadSeq !== null && id === threadId(conversationId, threadSeq));
};

const ADDRESS = /^#\/(?:w\/([^/]+)\/?)?(?:(moderation|threads)$)?(?:b\/([^/]+)\/?)?(?:c\/([^/]+)(?:\/t\/(\d{1,9}))?(?:\/(\d{1,9})$)?)?/;

function routeOf(hash: string): Route {
  const [, workspaceId, page, subBiz, conversationId, threadSeq, seq] = ADDRESS.exec(hash) ?? [];
  const thread = conversationId ? threadIn(conversationId) : null;
  return {
    workspaceId: workspaceId ?? null,
    moderation: page === "moderation",
    threads: page === "threads" || (plain(subBiz) === THREADS && !conversationId),
    subBiz: plain(subBiz) === THREADS ? null : plain(subBiz),
    conversationId: thread?.conversationId ?? conversationId ?? null,
    threadSeq: thread?.seq ?? (threadSeq ? Number(threadSeq) : null),
    seq: seq ? Number(seq) : null,
  };
}

export const useEntry = () => useSyncExternalStore(watch, entryNow);
