import { trying } from "./errors.mjs";

export const SEARCH = `query Search($query: String!, $filter: SearchFilter, $after: String) {
  searchMessages(query: $query, filter: $filter, first: 20, after: $after) {
    edges { highlights { start end } node { id conversationId seq content createdAt authorName } }
    pageInfo { hasNextPage endCursor }
    complete
  }
}`;
export const AROUND = `query Around($conversationId: ID!, $seq: Int!) {
  messages(conversationId: $conversationId, aroundSeq: $seq, first: 50) {
    edges { node { id seq content } } pageInfo { hasPreviousPage startCursor hasNextPage endCursor }
  }
}`;

// The results of one search, fetched page by page. ask(query, variables) returns the data of a query.
export class Results {
  found = []; // { node, highlights }, newest first
  complete = true; // false: not everything was searched
  hasMore = true;
  #ask;
  #variables;

  constructor(ask, query, filter) {
    this.#ask = ask;
    this.#variables = { query, filter };
  }

  async more() {
    const { searchMessages } = await trying(() => this.#ask(SEARCH, this.#variables));
    this.found.push(...searchMessages.edges);
    this.complete &&= searchMessages.complete;
    this.hasMore = searchMessages.pageInfo.hasNextPage;
    this.#variables = { ...this.#variables, after: searchMessages.pageInfo.endCursor };
  }
}

// Splits a text into { text, isFound }. The ranges count code points, but a JavaScript string has UTF-16 units.
export function partsOf(content, highlights) {
  const points = Array.from(content);
  const parts = [];
  let at = 0;
  for (const { start, end } of highlights) {
    parts.push({ text: points.slice(at, start).join(""), isFound: false });
    parts.push({ text: points.slice(start, end).join(""), isFound: true });
    at = end;
  }
  parts.push({ text: points.slice(at).join(""), isFound: false });
  return parts.filter(({ text }) => text);
}

// Fetches a result with its neighbours. Older ones come before `startCursor`, newer ones after `endCursor`.
export async function around(ask, { conversationId, seq }) {
  return (await trying(() => ask(AROUND, { conversationId, seq }))).messages;
}
