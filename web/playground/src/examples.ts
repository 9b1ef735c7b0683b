// Example operations of each area, and the operations whose answers fill their variables. Files of the folder `examples` begin with
// the name of an area; then each operation has a comment: its title, what it does, and notes, such as its variables.

import valueFile from "./values.graphql?raw";

const files = import.meta.glob<string>("./examples/*.graphql", { query: "?raw", import: "default", eager: true });

/** text: without the notes. */
export interface Example {
  area: string;
  title: string;
  name: string;
  kind: "query" | "mutation" | "subscription";
  text: string;
  notes: Notes;
}

/** Variables and Headers: JSON in which {name} stands for a value. values.graphql describes the other notes. */
export type Notes = Partial<Record<"As" | "For" | "Bytes" | "Where" | "Variables" | "Headers" | "Needs", string>>;

const NOTE = /^# (As|For|Bytes|Where|Variables|Headers|Needs): (.*)\n/gm;

export const EXAMPLES: Example[] = Object.keys(files)
  .sort()
  .flatMap((path) => {
    const [heading, ...blocks] = blocksOf(files[path]!);
    return blocks.map((block) => parse(heading!.slice(2), block));
  });

/** By the name of their operation. */
export const VALUES = new Map(
  blocksOf(valueFile)
    .slice(1)
    .map((block) => parse("", block))
    .map((value) => [value.name, value]),
);

function blocksOf(file: string): string[] {
  return file.trim().split(/\n{2,}/);
}

function parse(area: string, block: string): Example {
  const notes = Object.fromEntries([...`${block}\n`.matchAll(NOTE)].map(([, note, content]) => [note, content])) as Notes;
  const text = `${block}\n`.replace(NOTE, "");
  const [, kind, name] = /^(query|mutation|subscription) (\w+)/m.exec(text)!;
  return { area, title: /^# (.*)/.exec(text)?.[1] ?? "", name: name!, kind: kind as Example["kind"], text, notes };
}
