import type { ConfabError } from "@confab/client";

export const NO_NETWORK = "This needs the network. Try again when you are online.";

/** The text of an error for the user. */
export const errorText = (error: unknown): string => {
  const { code, message } = error as ConfabError;
  return code === "NETWORK" || code === "STOPPED" ? NO_NETWORK : message;
};
