import { fileURLToPath } from "node:url";

import { defineConfig } from "vite";

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  build: {
    lib: {
      entry: Object.fromEntries(["index", "react"].map((name) => [name, fileURLToPath(new URL(`src/${name}.ts`, import.meta.url))])),
      formats: ["es"],
    },
    rolldownOptions: { external: ["graphql-ws", "react"], output: { minify: true } },
    target: "es2022",
  },
});
