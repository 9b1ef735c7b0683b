import type { ConfabError, Operation } from "@confab/client";
import { useCallback, useEffect, useRef, useState } from "react";

import { errorText } from "../../confab/errorText";
import { useOnline, useApp } from "../appContext";

interface Page<Row> {
  edges: { node: Row }[];
  pageInfo: { hasNextPage: boolean; endCursor?: string | null };
}

const MODERATED = "moderated";

/** Displayed lists are read again, because something was done elsewhere on the page. */
export const reloadModerationLists = () => dispatchEvent(new Event(MODERATED));

/** A list that is read page by page. */
export function usePages<Data, Variables, Row>(
  operation: Operation<Data, Variables>,
  variables: Omit<Variables, "after">,
  pageOf: (data: Data) => Page<Row>,
) {
  const { client } = useApp();
  const online = useOnline();
  const [rows, setRows] = useState<Row[] | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [next, setNext] = useState<string | null>(null);
  const requestCount = useRef(0);
  const key = JSON.stringify(variables);

  const load = useCallback(
    async (after: string | null) => {
      const number = ++requestCount.current;
      try {
        const page = pageOf(await client.api.request(operation, { ...JSON.parse(key), after } as Variables));
        if (number !== requestCount.current) return; // Another list is wanted meanwhile.
        setFailure(null);
        setRows((before) => [...(after && before ? before : []), ...page.edges.map(({ node }) => node)]);
        setNext(page.pageInfo.hasNextPage ? page.pageInfo.endCursor! : null);
      } catch (error) {
        if (number === requestCount.current) setFailure((error as ConfabError).code === "NETWORK" ? "The list didn't load." : errorText(error));
      }
    },
    [client, operation, key],
  );
  useEffect(() => {
    setRows(null);
    if (online) void load(null);
  }, [load, online]);

  useEffect(() => {
    const again = () => void load(null);
    addEventListener(MODERATED, again);
    return () => removeEventListener(MODERATED, again);
  }, [load]);

  return {
    rows,
    failure,
    more: next ? () => void load(next) : null,
    reload: () => void load(null),
    /** Replaces or, with null, removes a row after a change. */
    change: (isIt: (row: Row) => boolean, to: Row | null) => setRows((before) => before?.flatMap((row) => (isIt(row) ? (to ? [to] : []) : [row])) ?? null),
  };
}
