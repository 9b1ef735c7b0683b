/** The rows of a list of messages: the content of each, and an estimate of its height until it is measured. */
import type { Message, PendingMessage } from "@confab/client";

import { day } from "../format";

export interface MessageRow {
  key: string;
  message: Message;
  /** The day to display above it. */
  newDay: string | null;
  /** True if the previous message is from the same person, and was sent shortly before. */
  follows: boolean;
  /** The sender's name is displayed, unless the message follows another one. */
  isNamed: boolean;
}

export type Row = MessageRow | { key: string; pending: PendingMessage };

const GROUPED_WITHIN_MS = 5 * 60_000;

export function rowsOf(messages: readonly Message[], pending: readonly PendingMessage[], me: string, showsSenders: boolean): Row[] {
  let previous: Message | undefined;
  let previousDay = "";
  const rows: Row[] = messages.map((message) => {
    const ownDay = day(message.createdAt);
    const newDay = ownDay === previousDay ? null : ownDay;
    const follows =
      !newDay &&
      previous?.sender.id === message.sender.id &&
      previous.contentType !== "SYSTEM" &&
      Date.parse(message.createdAt) - Date.parse(previous.createdAt) < GROUPED_WITHIN_MS;
    previous = message;
    previousDay = ownDay;
    // The user's own message keeps its key when the server stores it.
    const isOwn = message.sender.id === me;
    const key = (isOwn && message.idempotencyKey) || message.id;
    return { key, message, newDay, follows, isNamed: showsSenders && !isOwn };
  });
  for (const each of pending) rows.push({ key: each.key, pending: each });
  return rows;
}

export const seqOf = (row: Row | undefined) => (row && "message" in row ? row.message.seq : null);

const LINE_PX = 21;
const BUBBLE_PX = 15;
const LETTER_PX = 7.3;
const MAX_BUBBLE_PX = 600;

/** An estimate in CSS pixels, so that the scroll bar moves less when rows are measured. width: that of the list. */
export function estimatedHeight(row: Row, width: number): number {
  if (!("message" in row)) return 60;
  const { message, newDay, follows, isNamed } = row;
  const letters = Math.max(10, Math.min(MAX_BUBBLE_PX, 0.78 * width) / LETTER_PX);
  const content = message.state === "RECALLED" ? "" : (message.content ?? "");
  const lines = content.split("\n").reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / letters)), 0);
  return (
    BUBBLE_PX +
    lines * LINE_PX +
    (follows ? 0 : 7) +
    (isNamed && !follows ? LINE_PX : 0) +
    (newDay ? 48 : 0) +
    (message.replyTo ? 52 : 0) +
    (message.reactions.length ? 32 : 0) +
    message.attachments.reduce((sum, { contentType }) => sum + (contentType.startsWith("image/") ? 260 : 60), 0) +
    message.embeds.length * 110
  );
}
