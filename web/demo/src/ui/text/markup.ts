/**
 * Reads the markup of a message: bold, italic, struck out, code, quotes, lists, links and mentions.
 *
 * Guarantees: every character that is no markup of these kinds is text. HTML, images, headings and tables stay as they were written.
 * A link leads to http or https only. Texts of any length and nesting can be read: never throws.
 */
import { Marked, type Token, type Tokens } from "marked";

export type Mark =
  | { kind: "text" | "code" | "codeBlock" | "mention"; text: string }
  | { kind: "bold" | "italic" | "struck" | "quote"; inner: Mark[] }
  | { kind: "list"; first: number | null; items: Mark[][] }
  /** host: where it leads, if its text is not its address: a text may name another site. */
  | { kind: "link"; href: string; host: string | null; inner: Mark[] }
  | { kind: "break" };

/** Deeper markup is shown as it was written. */
const MAX_DEPTH = 8;

/** More of these characters outside of code, and lists nested deeper, would take the reader a noticeable time: such a text has no markup. */
const MAX_MARKS = 400;
const NESTED_LISTS = /^ {16,}(?:[-*+]|\d+[.)]) |(?:(?:[-*+]|\d+[.)])[ \t]+){9}/m;

const STARTS_AN_ADDRESS = /^(?:https?:\/\/|www\.)/i;

const noToken = () => undefined;

/** names: the mentions of the message, as they are in its text ("@Alice"). */
export function readMarkup(content: string, names: readonly string[] = []): Mark[] {
  const text: Mark = { kind: "text", text: content };
  const marks = content.replace(/```[^]*?```/g, "").match(/[*_~[>]/g)?.length ?? 0;
  if (marks > MAX_MARKS || NESTED_LISTS.test(content)) return [text];
  try {
    return marksOf(readerFor(names).lexer(content), 0);
  } catch {
    // Markup that is nested thousands of times exceeds the stack.
    return [text];
  }
}

/** The text without markup, in one line, as lists show it. */
export const plainText = (content: string) => textIn(readMarkup(content)).replace(/\s+/g, " ").trim();

/** True if a message consists of one to six emoji. */
export function isOnlyEmoji(content: string): boolean {
  const text = content.replace(/\s/g, "");
  return /^(?:\p{RI}{2}|\p{Emoji}(?:\p{EMod}|\uFE0F\u20E3?|[\u{E0020}-\u{E007F}])*(?:\u200D\p{Emoji}(?:\p{EMod}|\uFE0F)*)*){1,6}$/u.test(text) && !/^[\d#*]+$/.test(text);
}

const plainReader = newReader([]);
const readerFor = (names: readonly string[]) => (names.length ? newReader(names) : plainReader);

function newReader(names: readonly string[]): Marked {
  const reader = new Marked({ gfm: true, breaks: true, async: false });
  // A tokenizer that returns undefined finds nothing, so the text stays text.
  reader.use({
    tokenizer: {
      ...({ html: noToken, tag: noToken, heading: noToken, lheading: noToken, hr: noToken, table: noToken, def: noToken, reflink: noToken } as object),
      // In 2*3*4, nothing is italic. False lets the reader's own rule decide.
      emStrong: (_text, _masked, before) => (before && /[\p{L}\p{N}]/u.test(before) ? undefined : false),
    },
  });
  if (!names.length) return reader;
  const longestFirst = [...names].sort((a, b) => b.length - a.length);
  reader.use({
    extensions: [
      {
        name: "mention",
        level: "inline",
        start: (text: string) => text.indexOf("@"),
        tokenizer: (text: string) => {
          const raw = longestFirst.find((name) => text.startsWith(name));
          return raw === undefined ? undefined : { type: "mention", raw };
        },
      },
    ],
  });
  return reader;
}

const marksOf = (tokens: readonly Token[], depth: number): Mark[] => joined(tokens.flatMap((token) => markOf(token, depth)));

function markOf(token: Token, depth: number): Mark | Mark[] {
  const asWritten: Mark = { kind: "text", text: token.raw };
  if (depth > MAX_DEPTH) return asWritten;
  const inner = () => marksOf((token as Tokens.Strong).tokens ?? [], depth + 1);
  switch (token.type) {
    case "strong":
      return { kind: "bold", inner: inner() };
    case "em":
      return { kind: "italic", inner: inner() };
    case "del":
      return { kind: "struck", inner: inner() };
    case "blockquote":
      return { kind: "quote", inner: inner() };
    case "codespan":
      return { kind: "code", text: token.text as string };
    case "code":
      // Lines that begin with spaces are no code: people write them as they are.
      return (token as Tokens.Code).codeBlockStyle === "indented" ? asWritten : { kind: "codeBlock", text: token.text as string };
    case "mention":
      return { kind: "mention", text: token.raw };
    case "br":
      return { kind: "break" };
    case "space":
      return { kind: "text", text: token.raw };
    case "paragraph":
      return inner();
    case "text":
      return (token as Tokens.Text).tokens ? inner() : { kind: "text", text: (token as Tokens.Text).raw };
    case "escape":
      return { kind: "text", text: token.text as string };
    case "link":
      return linkOf(token as Tokens.Link, depth);
    case "list":
      return listOf(token as Tokens.List, depth);
    default:
      return asWritten;
  }
}

function linkOf(token: Tokens.Link, depth: number): Mark {
  const isAddress = token.raw === token.text || token.raw === `<${token.text}>`;
  const address = URL.canParse(token.href) ? new URL(token.href) : null;
  const isWeb = address?.protocol === "https:" || address?.protocol === "http:";
  // Addresses of mails are text too.
  if (!address || !isWeb || (isAddress && !STARTS_AN_ADDRESS.test(token.text))) return { kind: "text", text: token.raw };
  return { kind: "link", href: address.href, host: isAddress ? null : address.host, inner: marksOf(token.tokens, depth + 1) };
}

const listOf = (token: Tokens.List, depth: number): Mark => ({
  kind: "list",
  first: token.ordered ? Number(token.start) : null,
  items: token.items.map((item) => marksOf(item.tokens, depth + 1)),
});

const isBlock = (mark: Mark | undefined) => mark?.kind === "codeBlock" || mark?.kind === "quote" || mark?.kind === "list";

/** Neighbouring texts as one, without the empty lines around blocks, which have space of their own. */
function joined(marks: Mark[]): Mark[] {
  const texts: Mark[] = [];
  for (const mark of marks) {
    const last = texts.at(-1);
    if (mark.kind === "text" && last?.kind === "text") texts[texts.length - 1] = { kind: "text", text: last.text + mark.text };
    else texts.push(mark);
  }
  return texts.flatMap((mark, index) => {
    if (mark.kind === "break") return isBlock(texts[index - 1]) || isBlock(texts[index + 1]) ? [] : mark;
    if (mark.kind !== "text") return mark;
    const before = isBlock(texts[index - 1]) ? mark.text.replace(/^\n+/, "") : mark.text;
    const text = isBlock(texts[index + 1]) ? before.replace(/\n+$/, "") : before;
    return text ? { kind: "text", text } : [];
  });
}

const textIn = (marks: readonly Mark[]): string =>
  marks
    .map((mark) => {
      if (mark.kind === "codeBlock") return ` ${mark.text} `;
      if ("text" in mark) return mark.text;
      if (mark.kind === "break") return " ";
      if (mark.kind === "list") return mark.items.map((item) => ` ${textIn(item)} `).join("");
      return mark.kind === "quote" ? ` ${textIn(mark.inner)} ` : textIn(mark.inner);
    })
    .join("");
