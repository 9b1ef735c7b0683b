import type { IntrospectionQuery } from "graphql";

/**
 * The answer to an introspection query with its types and their fields by name, as they are listed in the documentation. Values of
 * enums stay in their order, because it has a meaning: the bits of permissions.
 */
export function sortedSchema(answer: { data?: unknown }): unknown {
  const { data } = answer;
  if (!isIntrospection(data)) return answer;
  const types = byName(data.__schema.types).map((type) => {
    if (type.kind === "OBJECT" || type.kind === "INTERFACE") return { ...type, fields: byName(type.fields) };
    return type.kind === "INPUT_OBJECT" ? { ...type, inputFields: byName(type.inputFields) } : type;
  });
  return { ...answer, data: { ...data, __schema: { ...data.__schema, types } } };
}

function byName<T extends { name: string }>(items: readonly T[]): T[] {
  return [...items].sort((one, other) => (one.name < other.name ? -1 : 1));
}

function isIntrospection(data: unknown): data is IntrospectionQuery {
  return typeof data === "object" && data !== null && "__schema" in data;
}
