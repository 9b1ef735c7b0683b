import { useEffect } from "react";

import { OnlineCountDocument } from "../../gql";
import { useAnswer, useOnline, useApp } from "../appContext";

/** The server counts at most once in 10 s. */
const COUNT_EVERY_MS = 10_000;

/** How many members a workspace has, and how many are online. No event has these numbers, so they are requested. */
export function useMemberCounts(workspaceId: string) {
  const { answers } = useApp();
  const online = useOnline();
  const { data } = useAnswer(OnlineCountDocument, { id: workspaceId });
  useEffect(() => {
    if (!online) return;
    const timer = setInterval(() => document.hidden || answers.refresh(OnlineCountDocument), COUNT_EVERY_MS);
    return () => clearInterval(timer);
  }, [answers, online]);
  return data?.workspace;
}
