import { useView } from "@confab/client/react";
import { useRef, useState, type DragEvent } from "react";

import { MAX_FILES } from "../../confab/uploads";
import { FileDocument } from "../../gql";
import { useApp } from "../appContext";
import type { MessageFile } from "./format";

const RETRY_MS = 10_000;
const MAX_ATTEMPTS = 5;

/** A file with addresses that work: they are valid for an hour, and then requested again. */
export function useFile(given: MessageFile) {
  const { client } = useApp();
  const requestedAt = useRef(0);
  const [attempt, setAttempt] = useState(0);
  const [answer, setAnswer] = useState<{ to: MessageFile; file: MessageFile } | null>(null);
  /** Null: it was removed, or there is no network. */
  const reload = async (): Promise<MessageFile | null> => {
    const file = await client.api.request(FileDocument, { id: given.id }).then(({ attachment }) => attachment, () => null);
    if (file) setAnswer({ to: given, file });
    return file;
  };
  return {
    file: answer?.to === given ? answer.file : given,
    reload,
    /** The `key` of the element that loads the file: it loads again after an error, also if the address is still the same. */
    attempt,
    /** For elements that do not load. Repeated failures have a pause between requests, and end after some attempts. */
    reloadAfterError: () => {
      if (attempt === MAX_ATTEMPTS) return;
      const wait = Math.max(0, requestedAt.current + RETRY_MS - Date.now());
      requestedAt.current = Date.now() + wait;
      setTimeout(() => void reload().then(() => setAttempt(attempt + 1)), wait);
    },
  };
}

/** Adds files to the next message, as many as one takes. */
export function useAddFiles(conversationId: string) {
  const { uploads, showToast } = useApp();
  const chosen = useView(uploads.chosenFor(conversationId));
  return (files: Iterable<File>) => {
    const all = [...files];
    const room = Math.max(0, MAX_FILES - chosen.length);
    if (all.length > room) showToast(`A message has at most ${MAX_FILES} files. Send the others with the next one.`);
    uploads.add(conversationId, all.slice(0, room));
  };
}

const hasFiles = (event: DragEvent) => event.dataTransfer.types.includes("Files");

/** Takes files that are dropped on an element. `over`: they are being dragged over it. */
export function useFileDrop(conversationId: string, when: boolean) {
  const add = useAddFiles(conversationId);
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
