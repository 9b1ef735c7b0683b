/** Texts for the entries of the audit log. */
import type { AuditLogQuery } from "../../gql";
import { plural } from "../format";
import { OUTCOMES, when, type Outcome } from "./format";

export type AuditRow = AuditLogQuery["auditLog"]["edges"][number]["node"];

/** Names by id: of people, channels, categories and roles. */
export type NamesById = ReadonlyMap<string, string>;

/** Actions by the groups of the filter. Each phrase stands between the name of the actor and that of the target. */
const ACTIONS = {
  Moderation: {
    kickMember: "removed",
    banUser: "banned",
    unbanUser: "lifted the ban on",
    timeoutMember: "timed out",
    recallMessage: "recalled a message of",
    recallMessages: "recalled messages of",
    clearReactions: "removed reactions",
    lockThread: "locked or unlocked a thread",
    resolveReport: "resolved a report about",
    setContentRules: "changed the content rules",
    moderateVoice: "changed the voice of",
  },
  Roles: {
    createRole: "created the role",
    updateRole: "changed the role",
    deleteRole: "deleted the role",
    setMemberRoles: "changed the roles of",
    setPermissionOverwrite: "changed permissions of",
    setNickname: "changed the nickname of",
  },
  Channels: {
    createChannel: "created the channel",
    updateChannel: "changed the channel",
    archiveChannel: "archived the channel",
    deleteChannel: "deleted the channel",
    createCategory: "created the category",
    updateCategory: "changed the category",
    deleteCategory: "deleted the category",
    addToChannel: "added to a channel:",
    removeFromChannel: "removed from a channel:",
  },
  Members: {
    joinWorkspace: "joined",
    leaveWorkspace: "left",
    addToWorkspace: "added",
    createInvite: "created an invitation",
    revokeInvite: "ended an invitation",
    transferWorkspace: "made the owner:",
  },
  Workspace: {
    createWorkspace: "created the workspace",
    updateWorkspace: "changed the workspace",
    createIncomingWebhook: "created the webhook",
    createOutgoingWebhook: "created a webhook",
    rotateWebhookSecret: "replaced the secret of a webhook",
    redeliverWebhook: "repeated deliveries of a webhook",
    deleteWebhook: "deleted the webhook",
  },
} as const;

export type ActionGroup = keyof typeof ACTIONS;
export const ACTION_GROUPS = Object.keys(ACTIONS) as ActionGroup[];
export const actionsOf = (group: ActionGroup): string[] => Object.keys(ACTIONS[group]);

const PHRASES: Partial<Record<string, string>> = Object.assign({}, ...Object.values(ACTIONS));

/** "setPermissionOverwrite" → "set permission overwrite", "MANAGE_ROLES" → "manage roles". */
const lower = (name: string) => name.replace(/_/g, " ").replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

const fields = (value: unknown) => (value && typeof value === "object" ? (value as Record<string, unknown>) : {});

/** What was done, to be followed by the target's name. */
export function verbOf({ action, before, after }: AuditRow): string {
  if (action === "timeoutMember" && !fields(after).timedOutUntil) return "ended the time-out of";
  if (action === "archiveChannel" && fields(before).isArchived) return "reopened the channel";
  return PHRASES[action] ?? lower(action);
}

/** The name of the target, as far as it is known. What was deleted since has its name in the entry. */
export function targetOf({ targetId, actor, before, after }: AuditRow, names: NamesById): string | null {
  if (!targetId || targetId === actor.id) return null;
  const name = names.get(targetId) ?? fields(after).name ?? fields(before).name;
  return typeof name === "string" ? name : null;
}

const HOUR = 3600;
/** Fields that do not help readers, or that the phrase already has. */
const HIDDEN = new Set(["reason", "reportId", "state", "isArchived", "position", "metadata", "plan", "inheritsPermissions"]);
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

function valueText(field: string, value: unknown, names: NamesById): string | null {
  if (value === null || value === undefined || value === "") return null;
  if (Array.isArray(value)) {
    if (field === "messageIds") return plural(value.length, "message");
    return value.map((each) => valueText(field, each, names)).filter(Boolean).join(", ") || null;
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (field === "deleteSeconds") return value ? `of the last ${plural(Math.ceil(Number(value) / HOUR), "hour")}` : null;
  if (field === "action") return OUTCOMES[value as Outcome] ?? String(value);
  if (typeof value === "object") return JSON.stringify(value);
  const text = String(value);
  if (TIME.test(text)) return when(text);
  if (/Ids?$/.test(field)) return names.get(text) ?? (/^[a-z]_\d/.test(text) ? "one that was deleted" : text);
  return /^[A-Z][A-Z_]+$/.test(text) ? capital(lower(text)) : text;
}

const LABELS: Partial<Record<string, string>> = { deleteSeconds: "Recalled messages", timedOutUntil: "Until" };

/** Names of fields: "roleIds" → "Roles", "isArchived" → "Archived". */
const label = (field: string) =>
  LABELS[field] ?? capital(lower(field.replace(/Id(s?)$/, "$1").replace(/^is(?=[A-Z])/, "")));

/** The values that an entry changed: [name, before, after]. For a new or deleted object, only those that are set. */
export function changesOf(row: AuditRow, names: NamesById): [name: string, before: string | null, after: string | null][] {
  const [old, now] = [fields(row.before), fields(row.after)];
  const single = !row.before || !row.after;
  return [...new Set([...Object.keys(old), ...Object.keys(now)])].flatMap((field) => {
    const [one, other] = [old[field], now[field]];
    const says = !single || (field !== "name" && (one || other) && (one ?? other) !== false);
    const [first, second] = [valueText(field, one, names), valueText(field, other, names)];
    const isTarget = typeof row.targetId === "string" && [one, other].includes(row.targetId);
    return HIDDEN.has(field) || isTarget || !says || first === second ? [] : [[label(field), first, second] as [string, string | null, string | null]];
  });
}
