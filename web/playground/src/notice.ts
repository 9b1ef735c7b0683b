// A notice for the user about the opened example. The bar displays it.

import type { Person } from "./identity";

/** signIn: the person that the sentence offers to sign in as. */
export interface Notice {
  text: string;
  signIn?: Person;
}

let current: Notice | null = null;
const listeners = new Set<() => void>();

export const notice = () => current;

export function setNotice(next: Notice | null): void {
  current = next;
  for (const listener of listeners) listener();
}

export function onNotice(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
