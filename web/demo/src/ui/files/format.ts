/** Texts for files. */
import type { Message } from "@confab/client";

export type MessageFile = Message["attachments"][number];

const UNITS = ["B", "KB", "MB", "GB"];

export function formatSize(bytes: number): string {
  let [amount, unit] = [bytes, 0];
  for (; amount >= 1000 && unit < UNITS.length - 1; unit += 1) amount /= 1000;
  return `${unit && amount < 10 ? amount.toFixed(1) : Math.round(amount)} ${UNITS[unit]}`;
}

export const isPicture = (type: string) => type.startsWith("image/") && !type.startsWith("image/svg");
