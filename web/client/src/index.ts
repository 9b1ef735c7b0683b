export { createClient } from "./client";
export { privateId } from "./ids";
export * from "./types";
