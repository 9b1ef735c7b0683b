import { BansDocument, UnbanUserDocument, type BanPartsFragment } from "../../gql";
import { Avatar } from "../Avatar";
import { nameOf } from "../presence/usePresence";
import { useMutation } from "../useMutation";
import { useApp } from "../appContext";
import { List } from "./List";
import { usePages } from "./usePages";
import { when } from "./format";

/** The users who may not join the workspace again. */
export function BansTab({ workspaceId }: { workspaceId: string }) {
  const { confirm } = useApp();
  const mutate = useMutation();
  const pages = usePages(BansDocument, { workspaceId }, ({ bans }) => bans);
  const lift = async ({ user }: BanPartsFragment) => {
    const question = { title: `Lift the ban on ${nameOf(user)}?`, text: "They can join the workspace again.", verb: "Lift ban" };
    if ((await confirm(question)) && (await mutate(UnbanUserDocument, { workspaceId, userId: user.id }))) pages.change((ban) => ban.user.id === user.id, null);
  };
  return (
    <List label="Bans" pages={pages} empty={["Nobody is banned", "Ban a member in the list of members, or from a report."]}>
      {(ban) => (
        <li key={ban.user.id} className="ban">
          <Avatar id={ban.user.id} name={nameOf(ban.user)} url={ban.user.avatarUrl} small />
          <div>
            <b>{nameOf(ban.user)}</b>
            <small>By {nameOf(ban.by)} · {when(ban.createdAt)} · {ban.until ? `until ${when(ban.until)}` : "until it is lifted"}</small>
            {ban.reason && <p className="note">“{ban.reason}”</p>}
          </div>
          <button className="button quiet" onClick={() => void lift(ban)}>Lift ban</button>
        </li>
      )}
    </List>
  );
}
