import { useLayoutEffect, useMemo, useRef } from "react";

/**
 * Wraps functions so that the wrappers stay the same in every rendering, and call the latest functions. Rows that get them as props are
 * not rendered again. Other values are passed on unchanged.
 */
export function useLatestActions<Actions extends object>(given: Actions): Actions {
  const latest = useRef(given);
  useLayoutEffect(() => void (latest.current = given));
  const entries = Object.entries(given).filter(([, value]) => value !== undefined);
  const others = entries.filter(([, value]) => typeof value !== "function");
  return useMemo(
    () =>
      Object.fromEntries([
        ...others,
        ...entries
          .filter(([, value]) => typeof value === "function")
          .map(([name]) => [name, (...parameters: unknown[]) => (latest.current as Record<string, ((...all: unknown[]) => unknown) | undefined>)[name]?.(...parameters)]),
      ]) as Actions,
    [entries.map(([name]) => name).join(" "), JSON.stringify(others)],
  );
}
