/**
 * The history of a conversation in the cache: pages that were fetched in any order and at any position.
 *
 * Pages that overlap, or that were fetched with the cursor of another one, have no gap between them. The newest page and all messages
 * received later belong together, too.
 */
import type { Cache, DataField, Entity } from "@urql/exchange-graphcache";

interface Page {
  key: string;
  nodes: [key: string, seq: number][];
  args: Record<string, unknown>;
  isNewest: boolean;
  info: Record<"hasPreviousPage" | "startCursor" | "hasNextPage" | "endCursor", unknown> | null;
}

/** The most messages that stay cached without a gap while the user scrolls. The pages at the other end are dropped. */
const MOST_CONNECTED = 300;

/**
 * Returns the connection that contains this page and all cached messages without a gap to it; null if there are none. A page around a
 * seq need not be cached itself, if another one contains that seq.
 */
export function connectedHistory(cache: Cache, conversationId: string, asked: string | undefined, aroundSeq: number | null, arrived: () => string[]) {
  const pages = cachedPages(cache, conversationId);
  const first = pages.find(({ key }) => key === asked) ?? pages.find((page) => aroundSeq !== null && begin(page) <= aroundSeq && aroundSeq <= end(page));
  if (!first) return undefined; // It was dropped: fetch it again.

  const connected = allConnected(first, pages);
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

/**
 * After a page was loaded at one end of a history: drops pages at its other end if more messages than needed are cached. Pages that are
 * not connected to it are dropped too.
 */
export function dropDistantPages(cache: Cache, conversationId: string, loaded: { before?: unknown; after?: unknown }): void {
  const pages = cachedPages(cache, conversationId);
  const cursor = loaded.before != null ? "before" : "after";
  const added = pages.find(({ args }) => args[cursor] === loaded[cursor]);
  if (!added) return;
  const connected = allConnected(added, pages);
  const drop = ({ args }: Page) => cache.invalidate("Query", "messages", args as never);
  pages.filter((page) => !connected.has(page)).forEach(drop);
  const fromHere = [...connected].sort((a, b) => (cursor === "before" ? begin(a) - begin(b) : end(b) - end(a)));
  let kept = 0;
  for (const page of fromHere) {
    if (kept >= MOST_CONNECTED) drop(page);
    kept += page.nodes.length;
  }
}

function cachedPages(cache: Cache, conversationId: string): Page[] {
  const pages: Page[] = [];
  for (const { fieldName, fieldKey, arguments: args } of cache.inspectFields("Query")) {
    if (fieldName !== "messages" || args?.conversationId !== conversationId) continue;
    const key = cache.resolve("Query", fieldKey) as string | null | undefined;
    if (key) pages.push(readPage(cache, key, args));
  }
  return pages;
}

function allConnected(first: Page, pages: readonly Page[]): Set<Page> {
  const connected = new Set([first]);
  for (const one of connected) for (const other of pages) if (!connected.has(other) && touches(one, other)) connected.add(other);
  return connected;
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
  return { key, nodes: [...nodes], args, isNewest: isFromEnd || info?.hasNextPage === false, info };
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
