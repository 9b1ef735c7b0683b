import { ArchiveChannelDocument } from "../../gql";
import { useMutation } from "../useMutation";
import { useApp } from "../appContext";

/** Archives a channel for everybody, or opens it again. */
export function useArchiveChannel() {
  const mutate = useMutation();
  const { offerUndo } = useApp();
  return async ({ id, name }: { id: string; name: string }, archived: boolean) => {
    if (!(await mutate(ArchiveChannelDocument, { id, archived }))) return;
    offerUndo({ message: archived ? `#${name} archived: everybody can read it, and nobody can write` : `#${name} is open again`, undo: () => void mutate(ArchiveChannelDocument, { id, archived: !archived }) });
  };
}
