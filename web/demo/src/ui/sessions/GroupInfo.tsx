import type { Operation } from "@confab/client";
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
  type MembersQuery,
} from "../../gql";
import { Avatar } from "../Avatar";
import { Dialog } from "../Dialog";
import { Menu, type MenuItem } from "../Menu";
import { People } from "./NewGroup";
import { StatusEmojiOf } from "../presence/CustomStatus";
import { useLatestUser } from "../presence/usePresence";
import { go } from "../route";
import { useMutation } from "../useMutation";
import { useAnswer, useLiveEvents, useApp } from "../appContext";

type MemberParts = NonNullable<NonNullable<MembersQuery["group"]>["members"]>["edges"][number]["node"];

/** The members of a group, and the actions the user is allowed to take. */
export function GroupInfo({ id, close }: { id: string; close: () => void }) {
  const { me, answers, people, confirm } = useApp();
  const mutate = useMutation();
  const { data } = useAnswer(MembersDocument, { id });
  const [name, setName] = useState<string | null>(null);
  const [invited, setInvited] = useState<string[]>([]);
  useLiveEvents((event) => {
    if (event.__typename === "GroupChanged" && event.group.id === id) answers.refresh(MembersDocument);
  });
  const group = data?.group;
  if (!group) return null;

  const members = group.members?.edges.map((edge) => edge.node) ?? [];
  const outside = people.filter((person) => !members.some((each) => each.user.id === person.id));
  const role = group.viewerRole;
  const change = <Data, Variables>(operation: Operation<Data, Variables>, variables: Variables) => mutate(operation, variables, { refreshes: [MembersDocument] });

  const removeMember = async (userId: string, name: string) => {
    const text = `${name} keeps the messages up to now, and gets no new ones.`;
    if (await confirm({ title: `Remove ${name} from ${group.name}?`, text, verb: "Remove" })) await change(RemoveMemberDocument, { id, userId });
  };
  const transfer = async (userId: string, name: string) => {
    const text = `${name} can then dismiss the group and choose its admins. You become a member.`;
    if (await confirm({ title: `Make ${name} the owner?`, text, verb: "Make owner" })) await change(TransferDocument, { id, userId });
  };
  const dismiss = async () => {
    const text = "The group and its messages disappear for all members. This cannot be undone.";
    if (!(await confirm({ title: `Dismiss ${group.name}?`, text, verb: "Dismiss group" }))) return;
    if (await mutate(DismissGroupDocument, { id })) (close(), go({}));
  };
  const leave = async () => {
    const text = "You keep the messages up to now, and get no new ones. To join again, you need an invitation.";
    if (!(await confirm({ title: `Leave ${group.name}?`, text, verb: "Leave group" }))) return;
    if (await mutate(LeaveGroupDocument, { id })) close();
  };

  const actions = (member: MemberParts, name: string): MenuItem[] => {
    const userId = member.user.id;
    const item = (label: string, doing: () => Promise<unknown>, when: boolean): MenuItem[] => (when ? [{ label, run: () => void doing() }] : []);
    if (userId === me || member.role === "OWNER") return [];
    return [
      ...item("Make admin", () => change(SetRoleDocument, { id, userId, role: "ADMIN" }), role === "OWNER" && member.role === "MEMBER"),
      ...item("Make member", () => change(SetRoleDocument, { id, userId, role: "MEMBER" }), role === "OWNER" && member.role === "ADMIN"),
      ...item("Make owner", () => transfer(userId, name), role === "OWNER"),
      ...item("Remove", () => removeMember(userId, name), role === "OWNER" || (role === "ADMIN" && member.role === "MEMBER")),
    ];
  };

  return (
    <Dialog title={group.name} close={close}>
      {(role === "OWNER" || role === "ADMIN") && (
        <form className="row" onSubmit={(event) => (event.preventDefault(), void change(RenameGroupDocument, { id, name: (name ?? "").trim() }))}>
          <label>Name<input value={name ?? group.name} onChange={(event) => setName(event.target.value)} maxLength={100} required /></label>
          <button className="button" disabled={!name?.trim() || name.trim() === group.name}>Rename</button>
        </form>
      )}
      <ul className="members" aria-label="Members">
        {members.map((member) => <Member key={member.user.id} member={member} actions={(name) => actions(member, name)} />)}
      </ul>
      {outside.length > 0 && (
        <form onSubmit={(event) => (event.preventDefault(), setInvited([]), void change(InviteDocument, { id, userIds: invited }))}>
          <People people={outside} chosen={invited} choose={setInvited} legend="Invite" />
          <button className="button" disabled={!invited.length}>Invite</button>
        </form>
      )}
      <footer>
        {role === "OWNER" ? (
          <button className="button danger" onClick={() => void dismiss()}>Dismiss group</button>
        ) : (
          <button className="button danger" onClick={() => void leave()}>Leave group</button>
        )}
      </footer>
    </Dialog>
  );
}

function Member({ member, actions }: { member: MemberParts; actions: (name: string) => MenuItem[] }) {
  const { me } = useApp();
  const user = useLatestUser(member.user);
  const items = actions(user.displayName);
  return (
    <li>
      <Avatar id={user.id} name={user.displayName} url={user.avatarUrl} small live={user.id !== me && !user.isBot} />
      <span>{user.id === me ? "You" : user.displayName} <StatusEmojiOf userId={user.id} /></span>
      {member.role !== "MEMBER" && <small>{member.role === "OWNER" ? "Owner" : "Admin"}</small>}
      {items.length > 0 && <Menu label={`Actions for ${user.displayName}`} items={items} />}
    </li>
  );
}
