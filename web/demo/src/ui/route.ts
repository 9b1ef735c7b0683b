/**
 * The displayed view, in the address: #/c/<conversation>, #/c/<conversation>/<seq>, #/b/<subBiz>, #/b/<subBiz>/c/<conversation>, and
 * with #/w/<workspace> too. The search dialog is an entry of the browser's history, so that "back" returns to its results.
 */
import { useSyncExternalStore } from "react";

export interface Route {
  workspaceId: string | null;
  subBiz: string | null;
  conversationId: string | null;
  /** The message to show. */
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
  /** The message that was in the middle of the screen when this entry was left; 0: the newest message was on the screen. */
  place?: number;
}

const NO_STATE: Entry = { number: 0 };

/** Ids of conversations consist of characters that an address may contain, percent signs included: they are neither encoded nor decoded. */
export const pathTo = ({ workspaceId, subBiz, conversationId, seq }: Partial<Route>) =>
  `#/${workspaceId ? `w/${workspaceId}/` : ""}${subBiz ? `b/${encodeURIComponent(subBiz)}/` : ""}${conversationId ? `c/${conversationId}${seq == null ? "" : `/${seq}`}` : ""}`;

/** At once, not with the browser's next event: a closed view must not see later changes. */
const changed = () => dispatchEvent(new HashChangeEvent("hashchange"));

export const entryNow = () => (history.state as Entry | null) ?? NO_STATE;

const push = (state: Omit<Entry, "number">, address: string) => {
  history.pushState({ ...state, number: entryNow().number + 1 } satisfies Entry, "", address);
  changed();
};

export const go = (route: Partial<Route>) => {
  if (pathTo(route) !== location.hash) push({}, pathTo(route));
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

/** Leaves the search dialog for one of its results. place: what "back" shows again of the view behind the dialog. */
export const goToResult = (route: Partial<Route>, place: number | null) => {
  const { place: _, ...search } = entryNow();
  history.replaceState({ ...search, ...(place !== null && { place }) }, "");
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

/** Outside of rendering: the conversation that is displayed at this moment. */
export const shownConversation = () => routeOf(location.hash).conversationId;

function routeOf(hash: string): Route {
  const [, workspaceId, subBiz, conversationId, seq] = /^#\/(?:w\/([^/]+)\/?)?(?:b\/([^/]+)\/?)?(?:c\/([^/]+)(?:\/(\d{1,9})$)?)?/.exec(hash) ?? [];
  return { workspaceId: workspaceId ?? null, subBiz: plain(subBiz), conversationId: conversationId ?? null, seq: seq ? Number(seq) : null };
}

export const useEntry = () => useSyncExternalStore(watch, entryNow);
