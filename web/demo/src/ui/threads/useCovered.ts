import { useSyncExternalStore } from "react";

import { useRoute } from "../route";

/** On narrower screens a thread covers its conversation. threads.css has the same width. */
const narrow = matchMedia("(max-width: 1100px)");
const watch = (listener: () => void) => {
  narrow.addEventListener("change", listener);
  return () => narrow.removeEventListener("change", listener);
};

/** Whether a thread covers the open conversation: then its messages are not visible. */
export function useCovered() {
  const { threadSeq } = useRoute();
  const isNarrow = useSyncExternalStore(watch, () => narrow.matches);
  return isNarrow && threadSeq !== null;
}
