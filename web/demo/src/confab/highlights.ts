/**
 * Splits a text at the highlights of a search result. The server counts in code points, JavaScript's strings in UTF-16 units: "😀" is one code
 * point and two units. So texts are split into code points here, and the ranges never touch a string.
 */
export interface TextRange {
  start: number;
  end: number;
}

export interface Part {
  text: string;
  isFound: boolean;
}

const ELLIPSIS = "…";

/** The whole text as parts. Ranges may overlap, and may go beyond a text that was edited since. */
export function partsOf(text: string, ranges: readonly TextRange[]): Part[] {
  return partsBetween(Array.from(text), ranges, 0, Infinity);
}

const MAX_UNCUT_START = 70;
const CONTEXT_BEFORE = 40;
const MAX_LENGTH = 240;

/**
 * At most 240 code points of a text, with the first range among them: from the beginning if it is near, else from a white space at most
 * 40 code points before it. "…" stands for what is left out.
 */
export function excerptOf(text: string, ranges: readonly TextRange[]): Part[] {
  const points = Array.from(text);
  const first = ranges.length ? Math.min(points.length, ...ranges.map(({ start }) => start)) : 0;
  let from = 0;
  if (first > MAX_UNCUT_START) {
    const space = points.findIndex((point, index) => index >= first - CONTEXT_BEFORE && index < first && /\s/.test(point));
    from = space < 0 ? first - CONTEXT_BEFORE : space + 1;
  }
  const to = Math.min(points.length, from + MAX_LENGTH);
  const parts = partsBetween(points, ranges, from, to);
  if (from > 0) parts.unshift({ text: ELLIPSIS, isFound: false });
  if (to < points.length) parts.push({ text: ELLIPSIS, isFound: false });
  return parts;
}

function partsBetween(points: string[], ranges: readonly TextRange[], from: number, to: number): Part[] {
  const parts: Part[] = [];
  const end = Math.min(points.length, to);
  let at = from;
  const add = (until: number, isFound: boolean) => {
    const upTo = Math.min(until, end);
    if (upTo > at) parts.push({ text: points.slice(at, upTo).join(""), isFound });
    at = Math.max(at, upTo);
  };
  for (const range of [...ranges].sort((a, b) => a.start - b.start)) {
    add(range.start, false);
    add(range.end, true);
  }
  add(end, false);
  return parts;
}
