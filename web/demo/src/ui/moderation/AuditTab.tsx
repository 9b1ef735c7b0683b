import { ERASED_NAME, isErased } from "@confab/client";
import { useEffect, useState } from "react";

import { AuditLogDocument, NamesOfDocument, type ModeratorRightsQuery, type NamesOfQuery } from "../../gql";
import { Avatar } from "../Avatar";
import { nameOf } from "../presence/usePresence";
import { useApp } from "../appContext";
import { ACTION_GROUPS, actionsOf, changesOf, targetOf, verbOf, type ActionGroup, type AuditRow, type NamesById } from "./auditText";
import { List } from "./List";
import { usePages } from "./usePages";
import { when } from "./format";

/** Who changed what, newest first. */
export function AuditTab({ workspace }: { workspace: NonNullable<ModeratorRightsQuery["workspace"]> }) {
  const [group, setGroup] = useState<ActionGroup | null>(null);
  const pages = usePages(AuditLogDocument, { workspaceId: workspace.id, actions: group && actionsOf(group) }, ({ auditLog }) => auditLog);
  const people = usePeople(pages.rows?.flatMap(idsIn) ?? []);
  const namedObjects = [...workspace.roles, ...workspace.categories, ...workspace.channels.edges.map(({ node }) => node)];
  const names = new Map([...people, ...namedObjects.map(({ id, name }) => [id, name.replace(/^@/, "")] as const)]);
  return (
    <>
      <div className="moderation-filters" role="group" aria-label="Kind of change">
        {[null, ...ACTION_GROUPS].map((each) => (
          <button key={each ?? ""} className="chip" aria-pressed={group === each} onClick={() => setGroup(each)}>{each ?? "All"}</button>
        ))}
      </div>
      <List label="Audit log" pages={pages} plain empty={["Nothing yet", group ? "No change of this kind was made." : "Changes of the workspace are listed here."]}>
        {(row) => <Entry key={row.id} row={row} names={names} />}
      </List>
    </>
  );
}

function Entry({ row, names }: { row: AuditRow; names: NamesById }) {
  const target = targetOf(row, names);
  const changes = changesOf(row, names);
  return (
    <li className="entry">
      <Avatar id={row.actor.id} name={nameOf(row.actor)} url={row.actor.avatarUrl} small />
      <div>
        <p>
          <b>{nameOf(row.actor)}</b>
          {row.onBehalfOf && <> for <b>{nameOf(row.onBehalfOf)}</b></>} {verbOf(row)}{target && <> <b>{target}</b></>}
        </p>
        {row.reason && <p className="note">“{row.reason}”</p>}
        {changes.length > 0 && (
          <dl>
            {changes.map(([name, before, after]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{before !== null && <del>{before}</del>}{before !== null && after !== null && " → "}{after !== null && <ins>{after}</ins>}</dd>
              </div>
            ))}
          </dl>
        )}
      </div>
      <small><time dateTime={row.createdAt}>{when(row.createdAt)}</time></small>
    </li>
  );
}

const PERSONAL = ["memberIds", "ownerId"];
const OF_THING = /^[a-z]_\d+(\.\d+)?$/;

/** The ids in an entry that may be people's. */
function idsIn({ targetId, before, after }: AuditRow): string[] {
  const values = [before, after].flatMap((each) => PERSONAL.flatMap((field) => (each as Record<string, unknown> | null)?.[field] ?? []));
  return [targetId ?? [], values as string[]].flat().filter((id) => !OF_THING.test(id));
}

const MAX_NAMES = 100;

/** The names of those ids that are people. */
function usePeople(ids: string[]): NamesById {
  const { client } = useApp();
  const [names, setNames] = useState<NamesById>(new Map());
  const wanted = [...new Set(ids)].filter((id) => !names.has(id) && !isErased(id)).slice(0, MAX_NAMES);
  const key = JSON.stringify(wanted);
  useEffect(() => {
    if (key === "[]") return;
    let isWanted = true;
    const show = ({ users }: NamesOfQuery) => {
      const found = users.flatMap((user) => (user ? [[user.id, user.displayName] as const] : []));
      if (isWanted && found.length) setNames((before) => new Map([...before, ...found]));
    };
    client.api.request(NamesOfDocument, { ids: JSON.parse(key) as string[] }).then(show, () => {}); // Without an answer, ids are shown.
    return () => void (isWanted = false);
  }, [client, key]);
  return new Map([...names, ...ids.filter(isErased).map((id) => [id, ERASED_NAME] as const)]);
}
