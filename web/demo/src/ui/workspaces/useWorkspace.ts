import { useEffect, useSyncExternalStore } from "react";

import type { WorkspaceView } from "../../confab/workspaces";
import { useOnline, useScreen, useWorld } from "../world";

/** The server counts at most once in 10 s. */
const COUNT_EVERY_MS = 10_000;

/** A workspace while it is displayed, with its voice states as they change. Undefined until it is there. */
export function useWorkspace(id: string): WorkspaceView | null | undefined {
  const { workspaces } = useWorld();
  const online = useOnline();
  const there = useScreen() === "there";
  useEffect(() => {
    if (!online || !there) return;
    workspaces.open(id);
    // No event tells of the number.
    const timer = setInterval(() => document.hidden || workspaces.count(id), COUNT_EVERY_MS);
    return () => clearInterval(timer);
  }, [id, online, there]);
  return useSyncExternalStore(workspaces.onChange, () => workspaces.get(id));
}

/** The voice channel that this device has joined, and its workspace if that is loaded. */
export function useJoined() {
  const { workspaces } = useWorld();
  const joined = useSyncExternalStore(workspaces.onChange, workspaces.joined);
  const view = useSyncExternalStore(workspaces.onChange, () => (joined ? workspaces.get(joined.workspaceId) : undefined));
  return { joined, view };
}
