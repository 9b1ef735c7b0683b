// Servers of our own that can be stopped, killed and started again, and people who use them.
import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const base64url = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Deployment {
  // urls: of GraphQL over HTTP. settings: those that differ from the defaults, as they were set.
  constructor(urls, secret, settings = {}) {
    this.urls = urls;
    this.secret = secret;
    this.settings = settings;
  }

  get controlled() {
    return false;
  }

  ws(server = 0) {
    return this.urls[server].replace(/^http/, "ws");
  }

  token(user, seconds = 3600) {
    const now = Math.floor(Date.now() / 1000);
    const signed = `${base64url({ alg: "HS256", typ: "JWT" })}.${base64url({ sub: user, iat: now, exp: now + seconds })}`;
    return `${signed}.${createHmac("sha256", this.secret).update(signed).digest("base64url")}`;
  }

  async ask(user, query, variables, server = 0) {
    const response = await fetch(this.urls[server], {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${this.token(user)}` },
      body: JSON.stringify({ query, variables }),
    });
    const { data, errors } = await response.json();
    if (errors) throw new Error(JSON.stringify(errors));
    return Object.values(data)[0];
  }

  // A message from one to another, through a server of choice.
  async send(from, to, content, server = 0) {
    const query = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id seq } } }";
    return (await this.ask(from, query, { input: { toUserId: to, content } }, server)).message;
  }

  async mutations() {
    const { mutationType } = await this.ask("alice", "{ __schema { mutationType { fields { name } } } }");
    return mutationType.fields.map(({ name }) => name);
  }

  async close() {}
}

export class OwnDeployment extends Deployment {
  // Two servers on the same databases, and a third with a defect.
  static async start(python) {
    const child = spawn(python, ["-m", "bench.client_servers"], {
      cwd: ROOT,
      env: { ...process.env, PYTHONPATH: ROOT },
      stdio: ["pipe", "pipe", "inherit"],
    });
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const { value, done } = await lines.next();
    if (done) throw new Error("the servers did not start");
    const { urls, secret, settings } = JSON.parse(value);
    const deployment = new OwnDeployment(urls, secret, settings);
    deployment.child = child;
    deployment.lines = lines;
    return deployment;
  }

  get controlled() {
    return true;
  }

  async tell(command) {
    this.child.stdin.write(`${JSON.stringify(command)}\n`);
    const { value, done } = await this.lines.next();
    if (done) throw new Error("the servers have gone");
    const { error } = JSON.parse(value);
    if (error) throw new Error(error);
  }

  stop(server) {
    return this.tell({ do: "stop", server });
  }

  kill(server) {
    return this.tell({ do: "kill", server });
  }

  start(server) {
    return this.tell({ do: "start", server });
  }

  revoke(user) {
    return this.tell({ do: "revoke", user });
  }

  async close() {
    this.child.stdin.end();
    if (this.child.exitCode === null) await once(this.child, "exit");
  }
}
