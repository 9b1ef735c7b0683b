import { ArchiveChannelDocument } from "../../gql";
import { useDo } from "../useDo";
import { useWorld } from "../world";

/** Archives a channel for everybody, or opens it again. */
export function useArchiving() {
  const run = useDo();
  const { offerUndo } = useWorld();
  return async ({ id, name }: { id: string; name: string }, archived: boolean) => {
    if (!(await run(ArchiveChannelDocument, { id, archived }))) return;
    offerUndo({ said: archived ? `#${name} archived: everybody can read it, and nobody can write` : `#${name} is open again`, undo: () => void run(ArchiveChannelDocument, { id, archived: !archived }) });
  };
}
