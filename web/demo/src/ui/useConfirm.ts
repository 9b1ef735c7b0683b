import { useState } from "react";

import type { Question } from "./Confirm";

/** Asks one question at a time. `ask` resolves to the answer. */
export function useConfirm() {
  const [asked, setAsked] = useState<{ question: Question; answer: (yes: boolean) => void } | null>(null);
  const ask = (question: Question) =>
    new Promise<boolean>((resolve) => setAsked({ question, answer: (yes) => (setAsked(null), resolve(yes)) }));
  return [asked, ask] as const;
}
