import { apolloClient, startApollo } from "./apollo.mjs";
import { developmentToken } from "./token.mjs";

// origin: "http://127.0.0.1:8000", where `make run` serves. possibleTypes: web/types/confab.possible-types.json.
export async function start(origin, possibleTypes) {
  const token = developmentToken(origin, "alice");
  const client = apolloClient({ url: `${origin}/graphql`, token, possibleTypes });
  const stop = await startApollo(client);
  return { client, stop };
}
