/** The displayed view, in the address: #/c/<conversation>, #/b/<subBiz>, #/b/<subBiz>/c/<conversation>, and with #/w/<workspace> too. */
import { useSyncExternalStore } from "react";

export interface Route {
  workspaceId: string | null;
  subBiz: string | null;
  conversationId: string | null;
}

/** Ids of conversations consist of characters that an address may contain, percent signs included: they are neither encoded nor decoded. */
export const pathTo = ({ workspaceId, subBiz, conversationId }: Partial<Route>) =>
  `#/${workspaceId ? `w/${workspaceId}/` : ""}${subBiz ? `b/${encodeURIComponent(subBiz)}/` : ""}${conversationId ? `c/${conversationId}` : ""}`;

/** At once, not with the browser's next event: a closed view must not see later changes. */
export const go = (route: Partial<Route>) => {
  if (pathTo(route) === location.hash) return;
  history.pushState(null, "", pathTo(route));
  dispatchEvent(new HashChangeEvent("hashchange"));
};

const watch = (listener: () => void) => (addEventListener("hashchange", listener), () => removeEventListener("hashchange", listener));

/** Addresses are typed by hand, too: one that cannot be decoded names nothing. */
function plain(part: string | undefined): string | null {
  try {
    return part ? decodeURIComponent(part) : null;
  } catch {
    return part!;
  }
}

export function useRoute(): Route {
  const hash = useSyncExternalStore(watch, () => location.hash);
  const [, workspaceId, subBiz, conversationId] = /^#\/(?:w\/([^/]+)\/?)?(?:b\/([^/]+)\/?)?(?:c\/([^/]+))?/.exec(hash) ?? [];
  return { workspaceId: workspaceId ?? null, subBiz: plain(subBiz), conversationId: conversationId ?? null };
}
