// Live events between servers and for the subscriptions of this server: one Redis channel per user.

export class Broadcast {
  #listeners = new Map();

  constructor(publisher, subscriber, prefix) {
    this.publisher = publisher;
    this.subscriber = subscriber;
    this.prefix = prefix;
    subscriber.on("message", (channel, text) => {
      const listeners = this.#listeners.get(channel);
      if (!listeners) return;
      const event = JSON.parse(text);
      for (const listener of listeners) listener(event);
    });
  }

  async publish(users, event) {
    const text = JSON.stringify(event);
    const pipeline = this.publisher.pipeline();
    for (const user of users) pipeline.publish(`${this.prefix}:user:${user}`, text);
    await pipeline.exec();
  }

  // Yields the user's events until the consumer returns. The first event is `ready`, once Redis has confirmed.
  async *subscribe(user) {
    const channel = `${this.prefix}:user:${user}`;
    const events = [];
    let wake = () => {};
    const listener = (event) => {
      events.push(event);
      wake();
    };
    const listeners = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, listeners.add(listener));
    try {
      await this.subscriber.subscribe(channel);
      yield { kind: "ready" };
      for (;;) {
        while (events.length) yield events.shift();
        await new Promise((resolve) => (wake = resolve));
      }
    } finally {
      listeners.delete(listener);
      if (!listeners.size) {
        this.#listeners.delete(channel);
        await this.subscriber.unsubscribe(channel);
      }
    }
  }
}
