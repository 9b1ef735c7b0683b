import type { AnyVariables, TypedDocumentNode } from "@urql/core";

import { useWorld } from "./world";

/** Runs a mutation. A refusal is shown to the user and returned as null. */
export function useDo() {
  const { client, tell } = useWorld();
  return async <Data, Variables extends AnyVariables>(document: TypedDocumentNode<Data, Variables>, variables: Variables): Promise<Data | null> => {
    const { data, error } = await client.mutation(document, variables).toPromise();
    if (error) tell(error.graphQLErrors[0]?.message ?? "This needs the network. Try again when you are online.");
    return error ? null : (data ?? null);
  };
}
