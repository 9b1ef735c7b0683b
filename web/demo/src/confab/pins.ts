/**
 * The pinned messages of a conversation in the cache.
 *
 * Guarantees: a message that is pinned comes to the top of the list, and one that is unpinned or recalled leaves it, from whichever
 * answer or event. Messages pinned since the page was loaded are stored one by one, so the order of answers and events does not matter.
 */
import type { Cache, FieldArgs } from "@urql/exchange-graphcache";

const PINNED = "pinned";

let pins = 0;

/** Puts a message at the top of the lists that contain it. */
export function holdPin(cache: Cache, message: { id: string; conversationId: string; isPinned: boolean }) {
  const of = { conversationId: message.conversationId };
  if (message.isPinned) cache.link("Query", PINNED, { ...of, number: (pins += 1) }, `Message:${message.id}`);
  cache.link("Query", PINNED, of, []); // Notifies the readers of the list.
}

/** Returns one page of the list; the first one begins with what was pinned since. Undefined if it was not fetched, null if there is none. */
export function pinnedMessages(cache: Cache, args: NonNullable<FieldArgs>) {
  const page = cache.resolve("Query", "pinnedMessages", args) as string | null | undefined;
  if (!page) return page;
  const conversationId = String(args.conversationId);
  cache.resolve("Query", PINNED, { conversationId });
  const since = cache
    .inspectFields("Query")
    .filter((field) => field.fieldName === PINNED && field.arguments?.conversationId === conversationId && field.arguments?.number)
    .sort((a, b) => Number(b.arguments!.number) - Number(a.arguments!.number))
    .map(({ fieldKey }) => cache.resolve("Query", fieldKey) as string);
  const fetched = ((cache.resolve(page, "edges") ?? []) as string[]).map((edge) => cache.resolve(edge, "node") as string);
  const nodes = args.after ? fetched.filter((key) => !since.includes(key)) : [...new Set([...since, ...fetched])];
  return {
    __typename: "MessageConnection",
    edges: nodes.filter((key) => cache.resolve(key, "isPinned")).map((node) => ({ __typename: "MessageEdge", node })),
    pageInfo: cache.resolve(page, "pageInfo"),
  };
}
