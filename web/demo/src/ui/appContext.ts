/** The context of every component: the client of the signed-in user, and what the demo adds to it. */
import type { ConfabClient, Device, LiveEvent, Operation, View } from "@confab/client";
import { useView } from "@confab/client/react";
import { createContext, useContext, useEffect, useMemo, useState } from "react";

import type { Answer, Answers } from "../confab/answers";
import type { Deletions } from "../confab/deletions";
import type { Drafts } from "../confab/drafts";
import type { Push } from "../confab/push";
import type { Search } from "../confab/search";
import type { Uploads } from "../confab/uploads";
import type { Person } from "../signIn";
import type { Question } from "./Confirm";
import type { Undoable } from "./undo/useUndo";

export interface AppContextValue {
  me: string;
  client: ConfabClient;
  answers: Answers;
  deletions: Deletions;
  device: Device;
  drafts: Drafts;
  push: Push;
  search: Search;
  uploads: Uploads;
  people: Person[];
  /** Shows a short message for a few seconds, usually why something failed. */
  showToast: (text: string) => void;
  /** Asks the user to confirm an action. */
  confirm: (question: Question) => Promise<boolean>;
  /** Shows what was done, with a button to undo it. */
  offerUndo: (action: Undoable) => void;
}

export const AppContext = createContext<AppContextValue | null>(null);
export const useApp = () => useContext(AppContext)!;

/** True while there is a connection to the server. */
export const useOnline = (): boolean => useView(useApp().client.isConnected);

const NOTHING: View<Answer<never>> = (({ answer }) => ({ get: () => answer, subscribe: () => () => {} }))({ answer: { isLoading: false } });

/** The answer to a query that no event keeps up to date (confab/answers.ts). variables null: nothing is requested. */
export function useAnswer<Data, Variables>(operation: Operation<Data, Variables>, variables: Variables | null): Answer<Data> {
  const { answers } = useApp();
  const key = JSON.stringify(variables);
  return useView(useMemo(() => (variables === null ? NOTHING : answers.of(operation, variables)), [answers, operation, key]));
}

/** Live events; the listener may change from one rendering to the next. */
export function useLiveEvents(listener: (event: LiveEvent) => void) {
  const { client } = useApp();
  useEffect(() => client.onEvent(listener));
}

/** True while the user looks at this page: displayed messages are then read. */
export function useWatched() {
  const [watched, setWatched] = useState(document.hasFocus() && !document.hidden);
  useEffect(() => {
    const look = () => setWatched(document.hasFocus() && !document.hidden);
    const moments = ["focus", "blur", "visibilitychange"] as const;
    moments.forEach((each) => (each === "visibilitychange" ? document : window).addEventListener(each, look));
    return () => moments.forEach((each) => (each === "visibilitychange" ? document : window).removeEventListener(each, look));
  }, []);
  return watched;
}

/** "Ann is typing…"; empty if no one is. */
export function useTypingText(conversationId: string): string {
  const { client } = useApp();
  const names = useView(client.typing(conversationId)).map(({ displayName }) => displayName.split(" ")[0]!);
  if (!names.length) return "";
  return names.length === 1 ? `${names[0]} is typing…` : `${names.slice(0, 2).join(" and ")} are typing…`;
}
