/** Texts for times and messages. */
import type { PreviewPartsFragment } from "../gql";
import { plainText } from "./text/markup";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "long" });
const calendar = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const DAY_MS = 86_400_000;

const midnight = (at: Date) => new Date(at).setHours(0, 0, 0, 0);

export const time = (at: string | number) => clock.format(new Date(at));

/** "3 Nov 2026" */
export const date = (at: string | number) => calendar.format(new Date(at));

export function day(at: string | number): string {
  const days = Math.round((midnight(new Date()) - midnight(new Date(at))) / DAY_MS);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  return days < 7 ? weekday.format(new Date(at)) : date(at);
}

/** For the list: the time if it is today, else the day. */
export const timeOrDay = (at: string | number) => (day(at) === "Today" ? time(at) : day(at));

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** "just now", "12 minutes ago", "yesterday at 18:05", "3 Nov 2026" */
export function relativeTime(at: string): string {
  const ms = Date.now() - Date.parse(at);
  if (ms < 2 * MINUTE_MS) return "just now";
  if (ms < HOUR_MS) return ago.format(-Math.floor(ms / MINUTE_MS), "minute");
  const today = day(at);
  return today === "Today" || today === "Yesterday" ? `${today.toLowerCase()} at ${time(at)}` : today;
}

export const plural = (count: number, one: string) => `${count} ${one}${count === 1 ? "" : "s"}`;

const KINDS = { image: "Photo", video: "Video", audio: "Audio" } as const;

/** What a message without a text is called: "Photo", "3 photos", "report.pdf", "2 files". */
function nameOf(files: readonly { filename: string; contentType: string }[]): string {
  if (!files.length) return "";
  const kinds = new Set(files.map(({ contentType }) => (contentType.startsWith("image/svg") ? undefined : KINDS[contentType.split("/")[0] as keyof typeof KINDS])));
  const kind = kinds.size === 1 ? [...kinds][0] : undefined;
  if (files.length === 1) return kind ?? files[0]!.filename;
  return plural(files.length, kind === "Photo" || kind === "Video" ? kind.toLowerCase() : "file");
}

/** The text of a message in one line, without markup. Without a text, its files are named. */
export const textOf = (message: Pick<PreviewPartsFragment, "content" | "state" | "attachments">) =>
  message.state === "RECALLED" ? "Message recalled" : (message.content && plainText(message.content)) || nameOf(message.attachments);

export const initials = (name: string) =>
  name
    .split(/\s+/)
    .map((word) => [...word][0] ?? "")
    .filter((each) => /\p{L}|\p{N}/u.test(each))
    .slice(0, 2)
    .join("")
    .toUpperCase();

/** One of twelve hues, always the same for an id; the style sheet makes them equally bright. */
export function hueOf(id: string): number {
  let hash = 2166136261;
  for (const each of id) hash = Math.imul(hash ^ each.codePointAt(0)!, 16777619);
  return (((hash ^ (hash >>> 11)) >>> 0) % 12) * 30;
}
