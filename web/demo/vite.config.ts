import { fileURLToPath } from "node:url";

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// Confab serves what is built here; names of files change with their content.
export default defineConfig({
  root: at("."),
  base: "/demo/assets/",
  plugins: [react()],
  resolve: {
    alias: [
      { find: "@confab/client/react", replacement: at("../client/src/react.ts") },
      { find: "@confab/client", replacement: at("../client/src/index.ts") },
    ],
  },
  build: {
    outDir: at("../../server/static/demo"),
    emptyOutDir: true,
    assetsDir: ".",
    target: "es2022",
    chunkSizeWarningLimit: 5000,
    rollupOptions: {
      input: { index: at("./index.html"), sw: at("./worker/worker.ts") },
      // The address of a service worker never changes: browsers ask it for a newer one.
      output: { entryFileNames: ({ name }) => (name === "sw" ? "sw.js" : "[name]-[hash].js") },
    },
  },
});
