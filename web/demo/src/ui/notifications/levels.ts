import type { NotificationLevel } from "../../gql";

/** The levels: name and meaning. */
export const LEVELS: [NotificationLevel, string, string][] = [
  ["ALL", "All messages", "Every new message"],
  ["MENTIONS", "Mentions only", "When somebody names you or one of your words"],
  ["NONE", "Nothing", "Messages still count as unread"],
];
