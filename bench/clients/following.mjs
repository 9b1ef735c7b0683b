// What any client of messageEvents has to do to lose nothing: remember the last cursor, and name it when it subscribes again.
import { sleep } from "./servers.mjs";

export const EVENTS = `subscription Live($since: Cursor) { messageEvents(since: $since) { __typename
  ... on MessageCreated { cursor message { id seq content sender { id displayName } } }
  ... on CaughtUp { cursor reset } } }`;

const PATIENCE = 30_000;

export class Follower {
  constructor() {
    this.cursor = null;
    this.contents = [];
    this.caughtUp = [];
    this.failure = null;
    this.completed = false;
    const follower = this;
    // A getter: whoever encodes the variables once more, to subscribe again, encodes the cursor of that moment.
    this.variables = {
      get since() {
        return follower.cursor;
      },
    };
  }

  take({ data, errors }) {
    if (errors) {
      this.failure = errors;
      return;
    }
    const event = data.messageEvents;
    if (event.cursor) this.cursor = event.cursor;
    if (event.__typename === "MessageCreated") this.contents.push(event.message.content);
    if (event.__typename === "CaughtUp") this.caughtUp.push(event);
  }

  get sink() {
    return {
      next: (result) => this.take(result),
      error: (failure) => { this.failure = failure; },
      complete: () => { this.completed = true; },
    };
  }

  async until(what, condition, patience = PATIENCE) {
    for (const end = Date.now() + patience; !condition(); ) {
      if (Date.now() > end) throw new Error(`waited in vain for ${what}: ${this}`);
      await sleep(10);
    }
  }

  heard(content) {
    return this.until(JSON.stringify(content), () => this.contents.includes(content));
  }

  // Fails unless exactly these came, in this order, and no client was told to start anew.
  check(contents) {
    if (JSON.stringify(this.contents) !== JSON.stringify(contents)) {
      throw new Error(`heard ${JSON.stringify(this.contents)} instead of ${JSON.stringify(contents)}`);
    }
    if (this.caughtUp.some(({ reset }) => reset)) throw new Error(`told to start anew: ${this}`);
  }

  toString() {
    const { contents, caughtUp, failure, completed } = this;
    return JSON.stringify({ contents, caughtUp, failure: failure && (failure.message ?? failure), completed });
  }
}
