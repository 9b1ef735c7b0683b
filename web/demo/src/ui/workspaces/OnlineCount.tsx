import type { ReactNode } from "react";

interface OnlineCountProps {
  count: number;
  children?: ReactNode;
}

/**
 * How many members of a workspace are online; children follow the number. Nothing at 0: the server answers 0 until it has counted
 * this user, and to users who are no members. A user who is INVISIBLE is not counted, so 0 can also be right for them.
 */
export function OnlineCount({ count, children }: OnlineCountProps) {
  if (count === 0) return null;
  return <><i className="online-sign" aria-hidden="true" /> {count} online{children}</>;
}
