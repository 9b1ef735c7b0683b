// Generates files for client developers from the schema: confab.d.ts (all types, inputs and enums, with the contract's
// descriptions), confab.possible-types.json (interfaces and unions, for Apollo's cache) and confab.introspection.json (for urql's).
//   node web/types/make.mjs [--schema FILE]    (`confab schema` prints one; else this repository's)
// With --check nothing is written: it fails if what is there is not what would be written.
import { codegen } from "@graphql-codegen/core";
import * as typescript from "@graphql-codegen/typescript";
import { buildSchema, introspectionFromSchema, isAbstractType, parse } from "graphql";
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";

const here = (name) => new URL(name, import.meta.url);
const { values } = parseArgs({ options: { schema: { type: "string" }, check: { type: "boolean" } } });
const source = readFileSync(values.schema ?? here("../../schema/schema.graphql"), "utf8");
const schema = buildSchema(source);

const types = await codegen({
  filename: "confab.d.ts",
  schema: parse(source),
  documents: [],
  config: {
    scalars: { ID: "string", Cursor: "string", DateTime: "string", Timestamp: "number", JSON: "unknown" },
    strictScalars: true,
    enumsAsTypes: true,
    nonOptionalTypename: true,
  },
  plugins: [{ typescript: {} }],
  pluginMap: { typescript },
});

const abstract = Object.values(schema.getTypeMap()).filter((type) => isAbstractType(type) && !type.name.startsWith("__"));
const possibleTypes = Object.fromEntries(abstract.map((type) => [type.name, schema.getPossibleTypes(type).map(({ name }) => name)]));

// Caches only need names and kinds.
const { __schema: known } = introspectionFromSchema(schema, { descriptions: false });
const introspection = { __schema: { ...known, directives: [], types: known.types.filter(({ name }) => !name.startsWith("__")) } };
const UNUSED = new Set(["specifiedByURL", "isOneOf", "isDeprecated", "deprecationReason", "defaultValue"]);
const lean = (key, value) => (UNUSED.has(key) ? undefined : value);

const files = {
  "confab.d.ts": `// Made from the schema by web/types/make.mjs (make types). Copy it; don't edit it.\n${types}`,
  "confab.possible-types.json": `${JSON.stringify(possibleTypes, null, 2)}\n`,
  "confab.introspection.json": `${JSON.stringify(introspection, lean)}\n`,
};
for (const [name, text] of Object.entries(files)) {
  if (!values.check) writeFileSync(here(name), text);
  else if (readFileSync(here(name), "utf8") !== text) {
    console.error(`web/types/${name} is not what the schema says. Run: make types`);
    process.exitCode = 1;
  }
}
