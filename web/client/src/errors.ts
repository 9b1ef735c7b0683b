import { ConfabError } from "./types";

/** The code of errors after stop(). */
export const STOPPED = "STOPPED";

export const stoppedError = () => new ConfabError("The client was stopped.", STOPPED, false);
export const notFoundError = () => new ConfabError("There is no such object, or you may not read it.", "NOT_FOUND", false);
