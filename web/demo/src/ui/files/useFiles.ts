import { useRef, useState, useSyncExternalStore, type DragEvent } from "react";

import { MOST_FILES } from "../../confab/uploads";
import { FileDocument, type FilePartsFragment } from "../../gql";
import { useWorld } from "../world";

export function useFiles(conversationId: string) {
  const { uploads } = useWorld();
  const files = useSyncExternalStore(uploads.onChange, uploads.files).filter((each) => each.conversationId === conversationId);
  const heldMessages = useSyncExternalStore(uploads.onChange, uploads.heldMessages).filter((each) => each.conversationId === conversationId);
  const waiting = new Set(heldMessages.flatMap((each) => each.files));
  return { files, heldMessages, drafts: files.filter(({ key }) => !waiting.has(key)) };
}

const AGAIN_MS = 10_000;
const MOST_ATTEMPTS = 5;

/** Asks for the file's addresses again, which are valid for an hour. The cache then shows the new ones. Null: it is gone, or offline. */
export function useNewAddress(id: string) {
  const { client } = useWorld();
  const askedAt = useRef(0);
  const [attempt, setAttempt] = useState(0);
  const ask = async (): Promise<FilePartsFragment | null> => {
    const { data } = await client.query(FileDocument, { id }, { requestPolicy: "network-only" }).toPromise();
    return data?.attachment ?? null;
  };
  return {
    ask,
    /** The `key` of the element that loads the file: it loads again after an error, also if the address is still the same. */
    attempt,
    /** For elements that do not load. A broken file is not asked for all the time. */
    askAfterError: () => {
      if (attempt === MOST_ATTEMPTS) return;
      const wait = Math.max(0, askedAt.current + AGAIN_MS - Date.now());
      askedAt.current = Date.now() + wait;
      setTimeout(() => void ask().then(() => setAttempt(attempt + 1)), wait);
    },
  };
}

/** Adds files to the next message, as many as one takes. */
export function useAdd(conversationId: string) {
  const { uploads, tell } = useWorld();
  const { drafts } = useFiles(conversationId);
  return (chosen: Iterable<File>) => {
    const all = [...chosen];
    const room = Math.max(0, MOST_FILES - drafts.length);
    if (all.length > room) tell(`A message has at most ${MOST_FILES} files. Send the others with the next one.`);
    uploads.add(conversationId, all.slice(0, room));
  };
}

const hasFiles = (event: DragEvent) => event.dataTransfer.types.includes("Files");

/** Takes files that are dropped on an element. `over`: they are being dragged over it. */
export function useDrop(conversationId: string, when: boolean) {
  const add = useAdd(conversationId);
  const [over, setOver] = useState(false);
  const on = {
    onDragOver: (event: DragEvent) => {
      if (!when || !hasFiles(event)) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: (event: DragEvent) => event.currentTarget.contains(event.relatedTarget as Node | null) || setOver(false),
    onDrop: (event: DragEvent) => {
      setOver(false);
      if (!when || !hasFiles(event)) return;
      event.preventDefault();
      add(event.dataTransfer.files);
    },
  };
  return { over, on };
}
