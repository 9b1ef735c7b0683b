// Types of everything the demo and the client package ask of Confab: operations.graphql of each against schema/schema.graphql, into
// its gql.ts.
// With --check nothing is written: it fails if the files differ from the generated ones.
import { readFileSync, writeFileSync } from "node:fs";

import { codegen } from "@graphql-codegen/core";
import * as operations from "@graphql-codegen/typescript-operations";
import { buildSchema, isAbstractType, isObjectType, parse, print, stripIgnoredCharacters, validate, visit } from "graphql";

const at = (path) => new URL(path, import.meta.url);
const text = (path) => readFileSync(at(path), "utf8");

const source = text("../schema/schema.graphql");
const schema = buildSchema(source);

const isFragment = (each) => each.kind === "FragmentDefinition";

/** The fragments that a definition names itself. */
function spreads(document, definition) {
  const names = new Set();
  visit(definition, { FragmentSpread: (node) => void names.add(node.name.value) });
  return document.definitions.filter((each) => isFragment(each) && names.has(each.name.value));
}

/** A definition and the fragments it needs. A fragment comes first in its document: the demo's cache reads and writes by the first one. */
const whole = (document, each) => new Set([each, ...spreads(document, each).flatMap((inner) => [...whole(document, inner)])]);

const resultOf = (each) => each.name.value + each.operation[0].toUpperCase() + each.operation.slice(1);

/** For the client package: plain text, which nothing parses. */
const plainDocuments = (document) => ({
  plugin: () => {
    const fragments = document.definitions.filter(isFragment);
    const strings = fragments.map((each) => `const ${each.name.value} = ${JSON.stringify(stripIgnoredCharacters(print(each)))};`);
    for (const each of document.definitions.filter((definition) => !isFragment(definition))) {
      const parts = [JSON.stringify(stripIgnoredCharacters(print(each))), ...[...whole(document, each)].slice(1).map((inner) => inner.name.value)];
      const type = `Operation<${resultOf(each)}, ${resultOf(each)}Variables>`;
      strings.push(`export const ${each.name.value}: ${type} = { name: "${each.name.value}", text: ${parts.join(" + ")} };`);
    }
    return { prepend: ['import type { Operation } from "./types";'], content: strings.join("\n\n") + "\n" };
  },
});

// Documents stay text that gql parses when the page loads: a tenth of the size of syntax trees.
const parsedDocuments = (document) => ({
  plugin: () => {
    const fragments = document.definitions.filter(isFragment);
    const constants = fragments.map((each) => `export const ${each.name.value} = gql\`${[...whole(document, each)].map(print).join("\n")}\`;`);
    for (const each of document.definitions.filter((definition) => !fragments.includes(definition))) {
      const name = each.name.value;
      const result = resultOf(each);
      const body = [print(each), ...spreads(document, each).map((inner) => `\${${inner.name.value}}`)].join("\n");
      constants.push(`export const ${name}Document: TypedDocumentNode<${result}, ${result}Variables> = gql\`${body}\`;`);
    }
    const possible = Object.values(schema.getTypeMap())
      .filter(isAbstractType)
      .filter((type) => !type.name.startsWith("__"))
      .map((type) => [type.name, schema.getPossibleTypes(type).map((each) => each.name)]);
    constants.push(`/** Which types an interface or union stands for. */\nexport const possibleTypes = ${JSON.stringify(Object.fromEntries(possible), null, 2)};`);
    const embedded = Object.values(schema.getTypeMap()).filter((type) => isObjectType(type) && !type.getFields().id && !type.name.startsWith("__"));
    const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()];
    const names = embedded.filter((type) => !roots.includes(type)).map((type) => type.name);
    constants.push(`/** Types without an id: part of what they are in. */\nexport const embeddedTypes = ${JSON.stringify(names)};`);
    const mutations = Object.keys(schema.getMutationType().getFields());
    constants.push(`export const mutations = ${JSON.stringify(mutations)};`);
    return { prepend: ['import { gql, type TypedDocumentNode } from "@urql/core";'], content: constants.join("\n\n") + "\n" };
  },
});

/** Writes folder/gql.ts, or with --check compares it. */
async function generate(folder, documents) {
  const document = parse(text(`${folder}/operations.graphql`));
  for (const error of validate(schema, document)) throw error;
  const target = `${folder}/gql.ts`;
  const made = await codegen({
    filename: target,
    schema: parse(source),
    documents: [{ location: "operations.graphql", document }],
    config: {
      scalars: { ID: "string", Cursor: "string", DateTime: "string", Timestamp: "number", JSON: "unknown" },
      enumType: "string-literal",
      skipTypename: true,
    },
    plugins: [{ operations: {} }, { documents: {} }],
    pluginMap: { operations, documents: documents(document) },
  });
  const wanted = `// Generated by \`npm run types\` from operations.graphql and the schema. Do not edit.\n${made}`;

  if (!process.argv.includes("--check")) writeFileSync(at(target), wanted);
  else if (text(target) !== wanted) {
    console.error(`${target} is not what the schema and operations.graphql say. Run: npm run types`);
    process.exitCode = 1;
  }
}

await generate("demo/src", parsedDocuments);
await generate("client/src", plainDocuments);
