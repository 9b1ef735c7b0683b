import { fileURLToPath } from "node:url";

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Confab serves what is built here; names of files change with their content.
export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  base: "/graphql/assets/",
  plugins: [react()],
  build: {
    outDir: fileURLToPath(new URL("../../server/static/playground", import.meta.url)),
    emptyOutDir: true,
    assetsDir: ".",
    target: "es2022",
    chunkSizeWarningLimit: 5000,
    assetsInlineLimit: 0,
    // GraphiQL's parts say "use no memo" to a compiler that is not here.
    rolldownOptions: { onLog: (level, log, tell) => log.code !== "MODULE_LEVEL_DIRECTIVE" && tell(level, log) },
  },
});
