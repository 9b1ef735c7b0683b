import { useState } from "react";

import type { Question } from "./Confirm";

/** Asks one question at a time. `ask` resolves to the answer. */
export function useConfirm() {
  const [confirmation, setConfirmation] = useState<{ question: Question; answer: (yes: boolean) => void } | null>(null);
  const ask = (question: Question) =>
    new Promise<boolean>((resolve) => setConfirmation({ question, answer: (yes) => (setConfirmation(null), resolve(yes)) }));
  return [confirmation, ask] as const;
}
