// Fills the variables and headers of an example: {name} stands for the answer to an operation of values.graphql, a time, a random
// text or a token. Such an operation may create what the example needs, so it is executed on the demo's data only.

import { VALUES, type Example } from "./examples";
import { execute } from "./fetcher";
import { randomId } from "./connection";
import { identity, people, tokenOf } from "./identity";

const HOUR_MS = 3_600_000;
const TIMES: Record<string, number> = { inAnHour: HOUR_MS, tomorrow: 24 * HOUR_MS, yesterday: -24 * HOUR_MS };

type Known = Map<string, Promise<unknown>>;

/** variables and headers: as texts for the editors. problem: why a {name} was left as it is. */
export interface FilledExample {
  variables: string;
  headers: string;
  problem: string;
}

export async function fill(example: Example): Promise<FilledExample> {
  const known: Known = new Map();
  const hasDemo = (await people()).length > 0;
  let problem = hasDemo || !needsDemo(example) ? "" : "This server has no demo data: replace what is in {braces}.";
  const filled = async (given: string | undefined) => {
    if (!given) return "";
    const find = async (name: string) => {
      if (!hasDemo && !(name in TIMES) && name !== "random") return `{${name}}`;
      return valueOf(name, known);
    };
    return JSON.stringify(await replaced(JSON.parse(given), find), null, 2);
  };
  try {
    if (hasDemo) for (const needed of example.notes.Needs?.split(" ") ?? []) await valueOf(needed, known);
    return { variables: await filled(example.notes.Variables), headers: await filled(example.notes.Headers), problem };
  } catch (error) {
    problem = `The example could not be prepared: ${(error as Error).message}`;
    return { variables: pretty(example.notes.Variables), headers: pretty(example.notes.Headers), problem };
  }
}

function needsDemo({ notes }: Example): boolean {
  const names = [...`${notes.Variables} ${notes.Headers}`.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  return Boolean(notes.Needs) || names.some((name) => !(name in TIMES) && name !== "random");
}

function valueOf(name: string, known: Known): Promise<unknown> {
  const value = known.get(name) ?? find(name, known);
  known.set(name, value);
  return value;
}

async function find(name: string, known: Known): Promise<unknown> {
  if (name in TIMES) return new Date(Date.now() + TIMES[name]!).toISOString();
  if (name === "random") return randomId();
  if (name.endsWith("Token")) return tokenOf(name.slice(0, -"Token".length));
  const operation = VALUES.get(name)!;
  const { As, For, Bytes, Variables, Where } = operation.notes;
  const filled = (given: unknown) => replaced(given, (other) => valueOf(other, known));
  const variables = Variables && (await filled(JSON.parse(Variables)));
  const { data, errors } = await execute(
    { query: operation.text, variables: variables as Record<string, unknown> | undefined },
    {
      Authorization: await authorizationOf(As ?? "alice"),
      ...(For ? { "Confab-Act-As": String(await filled(For)) } : {}),
    },
  );
  if (errors?.length) throw new Error(errors[0]!.message);
  if (Bytes) await send(Bytes, Object.values(data!)[0] as Upload);
  const found = valueIn(data, Where ? JSON.parse(Where) : {});
  if (found === undefined) throw new Error(`the demo's data has no ${name}.`);
  return found;
}

/** Prefers the token of the signed-in user: another token would close the open WebSocket. */
async function authorizationOf(who: string): Promise<string> {
  const current = identity();
  return `Bearer ${current?.person?.id === who ? current.token : await tokenOf(who)}`;
}

interface Upload {
  url: string;
  method: string;
  headers: { name: string; value: string }[];
}

async function send(bytes: string, { url, method, headers }: Upload): Promise<void> {
  // The browser sets this one itself.
  const given = headers.filter(({ name }) => name.toLowerCase() !== "content-length");
  const response = await fetch(url, { method, headers: given.map(({ name, value }) => [name, value] as [string, string]), body: bytes });
  if (!response.ok) throw new Error(`the server answered ${response.status} to the file.`);
}

/** JSON in which each {name} is replaced by its value, which keeps its type if it is the whole text. */
async function replaced(given: unknown, find: (name: string) => Promise<unknown>): Promise<unknown> {
  if (Array.isArray(given)) return Promise.all(given.map((item) => replaced(item, find)));
  if (typeof given === "object" && given !== null) {
    const entries: [string, unknown][] = [];
    for (const [key, value] of Object.entries(given)) entries.push([key, await replaced(value, find)]);
    return Object.fromEntries(entries);
  }
  if (typeof given !== "string") return given;
  const whole = /^\{(\w+)\}$/.exec(given);
  if (whole) return find(whole[1]!);
  const parts = given.split(/\{(\w+)\}/);
  return (await Promise.all(parts.map((part, at) => (at % 2 ? find(part) : part)))).join("");
}

/** The field `value` of the first object that has it, and the fields of `where`. */
function valueIn(answer: unknown, where: Record<string, unknown>): unknown {
  if (typeof answer !== "object" || answer === null) return undefined;
  const { value } = answer as { value?: unknown };
  const fits = Object.entries(where).every(([field, wanted]) => (answer as Record<string, unknown>)[field] === wanted);
  if (value !== undefined && value !== null && fits) return value;
  for (const part of Object.values(answer)) {
    const found = valueIn(part, where);
    if (found !== undefined) return found;
  }
  return undefined;
}

function pretty(given: string | undefined): string {
  return given ? JSON.stringify(JSON.parse(given), null, 2) : "";
}
