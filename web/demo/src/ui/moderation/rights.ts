import type { Permission } from "../../gql";

export type May = (right: Permission) => boolean;

/** Whether a list of permissions has one. Administrators have all. */
export const rightsFrom =
  (permissions: readonly Permission[] = []): May =>
  (right) => permissions.includes(right) || permissions.includes("ADMINISTRATOR");

const MODERATING: Permission[] = ["VIEW_REPORTS", "BAN_MEMBERS", "VIEW_AUDIT_LOG"];

/** Whether the moderation page has something to show. */
export const moderates = (may: May) => MODERATING.some(may);
