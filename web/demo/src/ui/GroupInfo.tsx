import { useState } from "react";

import {
  DismissGroupDocument,
  InviteDocument,
  LeaveGroupDocument,
  MembersDocument,
  RemoveMemberDocument,
  RenameGroupDocument,
  SetRoleDocument,
  TransferDocument,
} from "../gql";
import { Avatar } from "./Avatar";
import { Dialog } from "./Dialog";
import { Menu, type MenuItem } from "./Menu";
import { People } from "./NewGroup";
import { go } from "./route";
import { useDo } from "./useDo";
import { useAsked, useWorld } from "./world";

/** The members of a group, and the actions the user is allowed to take. */
export function GroupInfo({ id, close }: { id: string; close: () => void }) {
  const { me, people } = useWorld();
  const run = useDo();
  const [{ data }, again] = useAsked({ query: MembersDocument, variables: { id }, requestPolicy: "cache-and-network" });
  const [name, setName] = useState<string | null>(null);
  const [invited, setInvited] = useState<string[]>([]);
  const group = data?.group;
  if (!group) return null;

  const members = group.members?.edges.map((edge) => edge.node) ?? [];
  const outside = people.filter((person) => !members.some((each) => each.user.id === person.id));
  const role = group.viewerRole;
  const act = async (doing: Promise<unknown>) => ((await doing) ? again({ requestPolicy: "network-only" }) : undefined);

  const actions = (member: (typeof members)[number]): MenuItem[] => {
    const userId = member.user.id;
    const item = (label: string, doing: () => Promise<unknown>, when: boolean): MenuItem[] => (when ? [{ label, run: () => void act(doing()) }] : []);
    if (userId === me || member.role === "OWNER") return [];
    return [
      ...item("Make admin", () => run(SetRoleDocument, { id, userId, role: "ADMIN" }), role === "OWNER" && member.role === "MEMBER"),
      ...item("Make member", () => run(SetRoleDocument, { id, userId, role: "MEMBER" }), role === "OWNER" && member.role === "ADMIN"),
      ...item("Make owner", () => run(TransferDocument, { id, userId }), role === "OWNER"),
      ...item("Remove", () => run(RemoveMemberDocument, { id, userId }), role === "OWNER" || (role === "ADMIN" && member.role === "MEMBER")),
    ];
  };

  return (
    <Dialog title={group.name} close={close}>
      {(role === "OWNER" || role === "ADMIN") && (
        <form className="row" onSubmit={(event) => (event.preventDefault(), void act(run(RenameGroupDocument, { id, name: (name ?? "").trim() })))}>
          <label>Name<input value={name ?? group.name} onChange={(event) => setName(event.target.value)} maxLength={100} required /></label>
          <button className="button" disabled={!name?.trim() || name.trim() === group.name}>Rename</button>
        </form>
      )}
      <ul className="members" aria-label="Members">
        {members.map((member) => {
          const items = actions(member);
          return (
            <li key={member.user.id}>
              <Avatar id={member.user.id} name={member.user.displayName} small />
              <span>{member.user.id === me ? "You" : member.user.displayName}</span>
              {member.role !== "MEMBER" && <small>{member.role === "OWNER" ? "Owner" : "Admin"}</small>}
              {items.length > 0 && <Menu label={`Actions for ${member.user.displayName}`} items={items} />}
            </li>
          );
        })}
      </ul>
      {outside.length > 0 && (
        <form onSubmit={(event) => (event.preventDefault(), setInvited([]), void act(run(InviteDocument, { id, userIds: invited })))}>
          <People people={outside} chosen={invited} choose={setInvited} legend="Invite" />
          <button className="button" disabled={!invited.length}>Invite</button>
        </form>
      )}
      <footer>
        {role === "OWNER" ? (
          <button className="button danger" onClick={async () => (await run(DismissGroupDocument, { id })) && (close(), go({}))}>Dismiss group</button>
        ) : (
          <button className="button danger" onClick={async () => (await run(LeaveGroupDocument, { id })) && close()}>Leave group</button>
        )}
      </footer>
    </Dialog>
  );
}
