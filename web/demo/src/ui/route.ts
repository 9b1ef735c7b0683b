/** What is shown, in the address: #/c/<conversation>, #/b/<subBiz>, #/b/<subBiz>/c/<conversation>. */
import { useSyncExternalStore } from "react";

export interface Route {
  subBiz: string | null;
  conversationId: string | null;
}

export const pathTo = ({ subBiz, conversationId }: Partial<Route>) =>
  `#/${subBiz ? `b/${encodeURIComponent(subBiz)}/` : ""}${conversationId ? `c/${encodeURIComponent(conversationId)}` : ""}`;

export const go = (route: Partial<Route>) => {
  location.hash = pathTo(route);
};

const watch = (listener: () => void) => (addEventListener("hashchange", listener), () => removeEventListener("hashchange", listener));

export function useRoute(): Route {
  const hash = useSyncExternalStore(watch, () => location.hash);
  const [, subBiz, conversationId] = /^#\/(?:b\/([^/]+)\/?)?(?:c\/([^/]+))?/.exec(hash) ?? [];
  return { subBiz: subBiz ? decodeURIComponent(subBiz) : null, conversationId: conversationId ? decodeURIComponent(conversationId) : null };
}
