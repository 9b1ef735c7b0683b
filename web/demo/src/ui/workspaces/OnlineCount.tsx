import type { ReactNode } from "react";

interface OnlineCountProps {
  count: number;
  children?: ReactNode;
}

/**
 * The number of online members of a workspace, with the children after it. Shows nothing at 0: the server answers 0
 * until it has counted this user, and to users who are not members. INVISIBLE users are not counted, so 0 can be right.
 */
export function OnlineCount({ count, children }: OnlineCountProps) {
  if (count === 0) return null;
  return <><i className="online-sign" aria-hidden="true" /> {count} online{children}</>;
}
