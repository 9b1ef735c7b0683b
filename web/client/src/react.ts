/** React hooks. Components render again only when what they show has changed. */
import { createContext, createElement, useContext, useEffect, useMemo, useState, useSyncExternalStore, type ReactNode } from "react";

import type {
  ChannelState,
  ConfabClient,
  ConnectionState,
  Draft,
  History,
  HistoryState,
  Message,
  PendingMessage,
  Presence,
  Session,
  SessionFilter,
  SessionList,
  ThreadState,
  Upload,
  UploadOptions,
  UploadState,
  User,
  View,
  WorkspaceState,
  WorkspaceSummary,
} from "./types";

const Client = createContext<ConfabClient | null>(null);

/** Provides the client to all hooks below it. It does not stop the client: your code does. */
export function ConfabProvider({ client, children }: { client: ConfabClient; children?: ReactNode }) {
  return createElement(Client.Provider, { value: client }, children);
}

export function useClient(): ConfabClient {
  const client = useContext(Client);
  if (!client) throw new Error("This component needs a <ConfabProvider> above it.");
  return client;
}

/** The current value of any view of the client. */
export function useView<T>(view: View<T>): T {
  return useSyncExternalStore(view.subscribe, view.get, view.get);
}

export const useConnection = (): ConnectionState => useView(useClient().state);
export const useSessions = (filter?: SessionFilter): SessionList => useView(useClient().sessions(filter));
export const useMe = (): User | undefined => useView(useClient().me);
export const useIsConnected = (): boolean => useView(useClient().isConnected);
/** Undefined until it is known; null if there is none. */
export const useSession = (conversationId: string): Session | null | undefined => useView(useClient().session(conversationId));
export const useWorkspaces = (): readonly WorkspaceSummary[] => useView(useClient().workspaces);
export const useWorkspace = (id: string): WorkspaceState => useView(useClient().workspace(id));
export const useChannel = (id: string): ChannelState => useView(useClient().channel(id));
export const usePresence = (userId: string): Presence | undefined => useView(useClient().presence(userId));
export const useTyping = (conversationId: string): readonly User[] => useView(useClient().typing(conversationId));

type Moves = Pick<History, "loadOlder" | "loadNewer" | "jumpTo">;
interface Sending {
  send(draft: Draft & { files?: readonly Upload[] }): PendingMessage;
}

/** around: a seq to begin at, instead of the newest messages. */
export function useMessages(conversationId: string, options?: { around?: number }): HistoryState & Moves & Sending {
  const client = useClient();
  const history = client.messages(conversationId, options);
  const state = useView(history);
  const send: Sending["send"] = (draft) => client.send(conversationId, draft);
  return { ...state, loadOlder: history.loadOlder, loadNewer: history.loadNewer, jumpTo: history.jumpTo, send };
}

/** The thread of a message: send replies to it. */
export function useThread(parent: Pick<Message, "id" | "conversationId">): ThreadState & Moves & Sending {
  const client = useClient();
  const history = client.thread(parent);
  const state = useView(history);
  const send: Sending["send"] = (draft) => client.send(parent.conversationId, { ...draft, threadOf: parent.id });
  return { ...state, loadOlder: history.loadOlder, loadNewer: history.loadNewer, jumpTo: history.jumpTo, send };
}

const whenVisible = (listener: () => void) => {
  if (typeof document === "undefined" || !document.addEventListener) return () => {};
  document.addEventListener("visibilitychange", listener);
  return () => document.removeEventListener("visibilitychange", listener);
};
const isVisible = () => typeof document === "undefined" || !document.hidden;

/** Marks the conversation as read up to seq: that of the newest message on the screen. It waits while the page is hidden, or not connected. */
export function useMarkRead(conversationId: string, seq: number | undefined): void {
  const client = useClient();
  const visible = useSyncExternalStore(whenVisible, isVisible, () => false);
  const isConnected = useIsConnected();
  useEffect(() => {
    if (seq === undefined || !visible || !isConnected) return;
    const session = client.session(conversationId).get();
    const isRead = session && session.readSeq >= seq && session.unreadCount === 0 && !session.unreadStatus;
    if (!isRead) client.markRead(conversationId, seq).catch(() => {}); // It is tried again with the next message or connection.
  }, [client, conversationId, seq, visible, isConnected]);
}

export interface ChosenFile extends UploadState {
  readonly upload: Upload;
}

const NONE: readonly Upload[] = [];

/**
 * The files that the user has chosen for the next message. Pass the result of `take()` to `send` as `files`. The server deletes files
 * that are not sent after a day.
 */
export function useUploads(conversationId: string) {
  const client = useClient();
  const [chosen, setChosen] = useState<Readonly<Record<string, readonly Upload[]>>>({});
  const uploads = chosen[conversationId] ?? NONE;
  const files: readonly ChosenFile[] = useView(useMemo(() => together(uploads), [uploads]));
  const change = (by: (uploads: readonly Upload[]) => readonly Upload[]) => setChosen((all) => ({ ...all, [conversationId]: by(all[conversationId] ?? NONE) }));
  return {
    files,
    add: (file: Blob & { name?: string }, options?: UploadOptions) => {
      const upload = client.upload(conversationId, file, options);
      change((now) => [...now, upload]);
    },
    remove: (upload: Upload) => {
      upload.cancel();
      change((now) => now.filter((each) => each !== upload));
    },
    /** The files for the message; the next message begins without files. */
    take: () => {
      change(() => NONE);
      return uploads;
    },
  };
}

function together(uploads: readonly Upload[]): View<readonly ChosenFile[]> {
  let states: readonly UploadState[] = [];
  let files: readonly ChosenFile[] = [];
  return {
    get: () => {
      const now = uploads.map((upload) => upload.get());
      if (now.length === states.length && now.every((state, index) => state === states[index])) return files;
      states = now;
      return (files = uploads.map((upload, index) => ({ ...now[index]!, upload })));
    },
    subscribe: (listener) => {
      const ends = uploads.map((upload) => upload.subscribe(listener));
      return () => ends.forEach((end) => end());
    },
  };
}
