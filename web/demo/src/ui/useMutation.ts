import type { Operation } from "@confab/client";

import { errorText } from "../confab/errorText";
import { useApp } from "./appContext";

/** Waits for a change. A refusal is shown to the user and returned as null. */
export function useAttempt() {
  const { showToast } = useApp();
  return async <Result>(change: Promise<Result>): Promise<Result | null> => {
    try {
      return await change;
    } catch (error) {
      showToast(errorText(error));
      return null;
    }
  };
}

/** Sends a mutation, and then again the displayed queries in `refreshes`. A refusal is shown to the user and returned as null. */
export function useMutation() {
  const { client, answers } = useApp();
  const attempt = useAttempt();
  return async <Data, Variables>(operation: Operation<Data, Variables>, variables: Variables, { refreshes = [] }: { refreshes?: readonly { name: string }[] } = {}) => {
    const data = await attempt(client.api.request(operation, variables));
    if (data) answers.refresh(...refreshes);
    return data;
  };
}
