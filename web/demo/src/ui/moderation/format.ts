/** Texts of the moderation page. */
import type { ReportPartsFragment } from "../../gql";
import { date, day, time } from "../format";

export const REASONS = {
  SPAM: "Spam",
  HARASSMENT: "Harassment",
  VIOLENCE: "Violence",
  SEXUAL: "Sexual content",
  SELF_HARM: "Self-harm",
  ILLEGAL: "Illegal",
  OTHER: "Something else",
} as const;

/** What was done about a report. */
export const OUTCOMES = { NONE: "No action", RECALL: "Message recalled", TIMEOUT: "Timed out", KICK: "Removed", BAN: "Banned" } as const;

export type Reason = keyof typeof REASONS;
export type Outcome = keyof typeof OUTCOMES;

/** A time in the past, or one of the future: the end of a ban or of a time-out. */
export const when = (at: string) => `${Date.parse(at) > Date.now() && date(at) !== date(Date.now()) ? date(at) : day(at)}, ${time(at)}`;

/** The person that a report is about, if it names one. */
export const reportedUser = (report: ReportPartsFragment) => report.user ?? report.message?.sender ?? null;
