/**
 * The history of a conversation in the cache: pages that were fetched in any order and at any position.
 *
 * Pages that overlap, or that were fetched with the cursor of another one, have no gap between them. The newest page and all messages
 * received later belong together, too.
 */
import type { Cache, DataField, Entity } from "@urql/exchange-graphcache";

interface Page {
  nodes: [key: string, seq: number][];
  args: Record<string, unknown>;
  isNewest: boolean;
  info: Record<"hasPreviousPage" | "startCursor" | "hasNextPage" | "endCursor", unknown> | null;
}

/** Returns the connection that contains this page and all cached messages without a gap to it; null if there are none. */
export function connectedHistory(cache: Cache, conversationId: string, asked: string, arrived: () => string[]) {
  const pages: Page[] = [];
  let first: Page | undefined;
  for (const { fieldName, fieldKey, arguments: args } of cache.inspectFields("Query")) {
    if (fieldName !== "messages" || args?.conversationId !== conversationId) continue;
    const key = cache.resolve("Query", fieldKey) as string | null | undefined;
    if (!key) continue;
    const page = readPage(cache, key, args);
    pages.push(page);
    if (key === asked) first = page;
  }
  if (!first) return undefined; // It was dropped: fetch it again.

  const connected = new Set([first]);
  for (const one of connected) for (const other of pages) if (!connected.has(other) && touches(one, other)) connected.add(other);
  const seqs = new Map([...connected].flatMap(({ nodes }) => nodes));
  const reachesEnd = [...connected].some(({ isNewest }) => isNewest);
  if (reachesEnd) for (const key of arrived()) addMessage(cache, seqs, key);

  const withInfo = [...connected].filter(({ info }) => info);
  const oldest = withInfo.reduce<Page | null>((best, page) => (best && begin(best) <= begin(page) ? best : page), null);
  const newest = withInfo.reduce<Page | null>((best, page) => (best && end(best) >= end(page) ? best : page), null);
  return {
    __typename: "MessageConnection",
    edges: [...seqs].sort(([, a], [, b]) => a - b).map(([node]) => ({ __typename: "MessageEdge", node })),
    pageInfo: {
      __typename: "PageInfo",
      hasPreviousPage: oldest?.info?.hasPreviousPage ?? false,
      startCursor: oldest?.info?.startCursor ?? null,
      hasNextPage: !reachesEnd,
      endCursor: reachesEnd ? null : (newest?.info?.endCursor ?? null),
    },
  };
}

/** A conversation that did not exist when it was fetched: all its messages came later. */
export function newHistory(cache: Cache, arrived: string[]) {
  const seqs = new Map<string, number>();
  for (const key of arrived) addMessage(cache, seqs, key);
  if (!seqs.size) return null;
  return {
    __typename: "MessageConnection",
    edges: [...seqs].sort(([, a], [, b]) => a - b).map(([node]) => ({ __typename: "MessageEdge", node })),
    pageInfo: { __typename: "PageInfo", hasPreviousPage: false, startCursor: null, hasNextPage: false, endCursor: null },
  };
}

function readPage(cache: Cache, key: string, args: Record<string, unknown>): Page {
  const nodes = new Map<string, number>();
  for (const edge of (cache.resolve(key, "edges") ?? []) as string[]) addMessage(cache, nodes, cache.resolve(edge, "node"));
  const infoKey = cache.resolve(key, "pageInfo") as string | undefined;
  const field = (name: string) => cache.resolve(infoKey!, name);
  const info = infoKey
    ? { hasPreviousPage: field("hasPreviousPage"), startCursor: field("startCursor"), hasNextPage: field("hasNextPage"), endCursor: field("endCursor") }
    : null;
  const isFromEnd = args.before == null && args.after == null && args.aroundSeq == null;
  return { nodes: [...nodes], args, isNewest: isFromEnd || info?.hasNextPage === false, info };
}

function addMessage(cache: Cache, seqs: Map<string, number>, node: DataField | undefined) {
  const seq = cache.resolve(node as Entity, "seq");
  if (typeof seq === "number") seqs.set(node as string, seq);
}

const begin = ({ nodes }: Page) => nodes[0]?.[1] ?? 0;
const end = ({ nodes }: Page) => nodes.at(-1)?.[1] ?? 0;

function touches(one: Page, other: Page): boolean {
  if (one.isNewest && other.isNewest) return true;
  if (one.nodes.length && other.nodes.length && begin(one) <= end(other) && begin(other) <= end(one)) return true;
  const follows = (a: Page, b: Page) =>
    (a.args.before != null && a.args.before === b.info?.startCursor) || (b.args.after != null && b.args.after === a.info?.endCursor);
  return follows(one, other) || follows(other, one);
}
