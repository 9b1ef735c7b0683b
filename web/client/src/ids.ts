/** Ids that contain user ids. In them, each byte of a user id outside A-Z a-z 0-9 . @ - is percent-encoded, to be unambiguous. */
const utf8 = new TextEncoder();

const encoded = (userId: string) =>
  Array.from(utf8.encode(userId), (byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9.@-]/.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");

/** Order by code point. JavaScript's sort compares UTF-16 units. */
function byCodePoint(one: string, other: string): number {
  const [a, b] = [one, other].map((text) => Array.from(text, (each) => each.codePointAt(0)!)) as [number[], number[]];
  const at = a.findIndex((each, index) => each !== b[index]);
  return at < 0 ? a.length - b.length : a[at]! - (b[at] ?? -1);
}

export const sessionId = (userId: string, conversationId: string) => `s_${encoded(userId)}_${conversationId}`;

export const privateId = (one: string, other: string) => `p_${[one, other].sort(byCodePoint).map(encoded).join("_")}`;

/** The other user of a private conversation; undefined if this is not the id of one with `me`. */
export function peerIn(conversationId: string, me: string): string | undefined {
  const parts = conversationId.startsWith("p_") ? conversationId.slice(2).split("_") : [];
  const other = parts.find((each) => each !== encoded(me));
  try {
    const peer = other && decodeURIComponent(other);
    return peer && conversationId === privateId(me, peer) ? peer : undefined;
  } catch {
    return undefined; // It is not UTF-8.
  }
}

/** The subBiz of followed threads. */
export const THREADS = "@threads";

/** The thread of the message with this seq. */
export const threadId = (conversationId: string, seq: number) => `t_${seq}_${conversationId}`;

/** The message that a thread belongs to; null if this is not the id of a thread. */
export function threadIn(conversationId: string): { conversationId: string; seq: number } | null {
  const [, seq, parent] = /^t_(\d+)_(.+)$/.exec(conversationId) ?? [];
  return parent === undefined ? null : { conversationId: parent, seq: Number(seq) };
}

/** Whether this is the pseudonym of an erased user, which is also their name. */
export const isErased = (text: string) => /^erased-[0-9a-f]{16}$/.test(text);

/** The displayed name of an erased user. */
export const ERASED_NAME = "Deleted user";
