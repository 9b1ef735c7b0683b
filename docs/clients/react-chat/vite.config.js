import { defineConfig } from "vite";

/** The server: `confab dev` or `make run`. The page and the server have one origin for the browser. */
const target = process.env.CONFAB_URL ?? "http://127.0.0.1:8000";
const proxy = { "/graphql": { target, ws: true }, "/dev/": { target } };

export default defineConfig({ server: { proxy }, preview: { proxy } });
