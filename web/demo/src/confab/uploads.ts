/**
 * The files that were chosen for the next message of each conversation, with what the page displays of them. The client uploads them.
 *
 * Guarantees: chosen files stay when the conversation is closed and opened again. They are lost with the page, because browsers do not
 * let pages keep them. A picture that was sent from this page is displayed from this device.
 */
import { newKey, threadIn, type ConfabClient, type Upload, type View } from "@confab/client";

export interface ChosenFile {
  /** Stays the same when the file is uploaded again. */
  readonly key: string;
  readonly upload: Upload;
  readonly file: File;
  /** An address of the picture on this device; null for other files. */
  readonly localPicture: string | null;
  readonly description: string;
  readonly spoiler: boolean;
}

export interface Uploads {
  /** Oldest first. */
  chosenFor(conversationId: string): View<readonly ChosenFile[]>;
  add(conversationId: string, files: Iterable<File>): void;
  /** Uploads the file again, because the server gets the description with it. */
  describe(chosen: ChosenFile, change: Pick<ChosenFile, "description" | "spoiler">): void;
  /** Cancels the upload, also if a message waits for it. */
  remove(chosen: ChosenFile): void;
  /** The files for a message that is sent now. The next message begins without files. */
  take(conversationId: string): readonly Upload[];
  /** The file of an upload, also after it was taken. */
  chosenAs(upload: Upload): ChosenFile;
  /** The picture of an attachment that was uploaded from this page. */
  localPictureOf(attachmentId: string): string | null;
}

export const MAX_FILES = 10;
const NONE: readonly ChosenFile[] = [];

export function openUploads(client: Pick<ConfabClient, "upload">): Uploads {
  const chosen = new Map<string, readonly ChosenFile[]>();
  const byUpload = new WeakMap<Upload, ChosenFile>();
  const localPictures = new Map<string, string>();
  const listeners = new Set<() => void>();
  const views = new Map<string, View<readonly ChosenFile[]>>();
  const subscribe = (listener: () => void) => (listeners.add(listener), () => void listeners.delete(listener));
  const change = (conversationId: string, by: (files: readonly ChosenFile[]) => readonly ChosenFile[]) => {
    chosen.set(conversationId, by(chosen.get(conversationId) ?? NONE));
    listeners.forEach((changed) => changed());
  };

  const begin = (conversationId: string, given: Omit<ChosenFile, "upload">): ChosenFile => {
    const { file, description, spoiler, localPicture } = given;
    // A thread does not exist before its first reply; its files may be those of the conversation.
    const upload = client.upload(threadIn(conversationId)?.conversationId ?? conversationId, file, { description, spoiler });
    const begun = { ...given, upload };
    byUpload.set(upload, begun);
    const stop = upload.subscribe(() => {
      const { status, attachmentId } = upload.get();
      if (status === "ready" && attachmentId && localPicture) localPictures.set(attachmentId, localPicture);
      if (status === "ready") stop();
    });
    return begun;
  };
  const conversationOf = (key: string) => [...chosen.keys()].find((each) => chosen.get(each)!.some((file) => file.key === key));

  return {
    chosenFor: (conversationId) => {
      const view = views.get(conversationId) ?? { get: () => chosen.get(conversationId) ?? NONE, subscribe };
      views.set(conversationId, view);
      return view;
    },
    add: (conversationId, files) => {
      const begun = [...files].map((file) => {
        const localPicture = /^image\/(?!svg)/.test(file.type) ? URL.createObjectURL(file) : null;
        return begin(conversationId, { key: newKey(), file, localPicture, description: "", spoiler: false });
      });
      change(conversationId, (now) => [...now, ...begun]);
    },
    describe: ({ upload, ...rest }, { description, spoiler }) => {
      const conversationId = conversationOf(rest.key);
      if (conversationId === undefined) return;
      upload.cancel();
      const again = begin(conversationId, { ...rest, description, spoiler });
      change(conversationId, (now) => now.map((each) => (each.key === rest.key ? again : each)));
    },
    remove: ({ key, upload, localPicture }) => {
      const conversationId = conversationOf(key);
      if (conversationId !== undefined) change(conversationId, (now) => now.filter((each) => each.key !== key));
      upload.cancel();
      if (localPicture) URL.revokeObjectURL(localPicture);
    },
    take: (conversationId) => {
      const taken = chosen.get(conversationId) ?? NONE;
      change(conversationId, () => NONE);
      return taken.map(({ upload }) => upload);
    },
    chosenAs: (upload) => byUpload.get(upload)!,
    localPictureOf: (attachmentId) => localPictures.get(attachmentId) ?? null,
  };
}
