const files = import.meta.glob<string>("./examples/*.graphql", { query: "?raw", import: "default", eager: true });

/** Operations that work unchanged on the demo's data, in the order of their tabs. */
export const EXAMPLES = Object.keys(files)
  .sort()
  .map((path) => files[path]!);

/** The name of an example's operation. */
export const nameOf = (example: string) => /^(?:query|mutation|subscription) (\w+)/m.exec(example)?.[1] ?? "Untitled";
