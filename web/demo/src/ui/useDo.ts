import type { Operation } from "@confab/client";

import { reasonOf } from "../confab/reasons";
import { useWorld } from "./world";

/** Waits for a change. A refusal is shown to the user and returned as null. */
export function useAttempt() {
  const { tell } = useWorld();
  return async <Result>(change: Promise<Result>): Promise<Result | null> => {
    try {
      return await change;
    } catch (error) {
      tell(reasonOf(error));
      return null;
    }
  };
}

/** Sends a mutation, and then again the displayed queries in `refreshes`. A refusal is shown to the user and returned as null. */
export function useDo() {
  const { client, answers } = useWorld();
  const attempt = useAttempt();
  return async <Data, Variables>(operation: Operation<Data, Variables>, variables: Variables, { refreshes = [] }: { refreshes?: readonly { name: string }[] } = {}) => {
    const data = await attempt(client.api.request(operation, variables));
    if (data) answers.refresh(...refreshes);
    return data;
  };
}
