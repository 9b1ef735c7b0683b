// Alice on two devices and Bob on one, with the public graphql-ws client, against a running Confab:
//   node first_light.mjs ws://127.0.0.1:8000/graphql ALICE_TOKEN BOB_TOKEN [MESSAGES]
// Checks that a message reaches all three, that reading on one device clears the other, and prints how long a send takes to
// be answered and to be delivered, one at a time. Ends with status 1 if something did not come.
import { createClient } from "graphql-ws";
import WebSocket from "ws";

const [url, aliceToken, bobToken, count = "200"] = process.argv.slice(2);
if (!bobToken) {
  console.error("usage: node first_light.mjs WS_URL ALICE_TOKEN BOB_TOKEN [MESSAGES]");
  process.exit(2);
}

const EVENTS = `subscription { messageEvents { __typename
  ... on MessageCreated { cursor message { id seq content sender { displayName } } }
  ... on ReceiptAdvanced { user { id } status seq } } }`;
const SYNC = `subscription { syncSession { reason totalUnread sessions { id unreadCount readSeq } } }`;
const SEND = `mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id seq conversationId } session { readSeq } } }`;
const READ = `mutation ($id: ID!) { markRead(conversationId: $id) { unreadCount } }`;
const WAIT = 5000;

class Device {
  constructor(name, token) {
    this.name = name;
    this.seen = [];
    this.waiting = [];
    this.client = createClient({
      url,
      webSocketImpl: WebSocket,
      retryAttempts: 0,
      connectionParams: { Authorization: `Bearer ${token}` },
    });
  }
  listen(query) {
    this.client.subscribe({ query }, {
      next: ({ data, errors }) => {
        if (errors) throw new Error(`${this.name}: ${JSON.stringify(errors)}`);
        this.take({ ...Object.values(data)[0], at: performance.now() });
      },
      error: (error) => { console.error(this.name, error); process.exit(1); },
      complete: () => {},
    });
  }
  take(event) {
    const index = this.waiting.findIndex(({ wanted }) => wanted(event));
    if (index < 0) this.seen.push(event);
    else this.waiting.splice(index, 1)[0].resolve(event);
  }
  expect(what, wanted) {
    const index = this.seen.findIndex(wanted);
    if (index >= 0) return Promise.resolve(this.seen.splice(index, 1)[0]);
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`${this.name} did not get ${what}`)), WAIT);
      this.waiting.push({ wanted, resolve: (event) => { clearTimeout(late); resolve(event); } });
    });
  }
  run(query, variables) {
    return new Promise((resolve, reject) => {
      let result;
      this.client.subscribe({ query, variables }, {
        next: (value) => { result = value; },
        error: reject,
        complete: () => (result.errors ? reject(new Error(JSON.stringify(result.errors))) : resolve(result.data)),
      });
    });
  }
}

const quantile = (values, q) => [...values].sort((a, b) => a - b)[Math.floor(q * (values.length - 1))].toFixed(1);

const phone = new Device("alice's phone", aliceToken);
const desk = new Device("alice's desk", aliceToken);
const bob = new Device("bob", bobToken);
const devices = [phone, desk, bob];
for (const device of devices) {
  device.listen(EVENTS);
  device.listen(SYNC);
}
await Promise.all(devices.map((d) => d.expect("CaughtUp", (e) => e.__typename === "CaughtUp")));
await Promise.all(devices.map((d) => d.expect("CATCH_UP", (e) => e.reason === "CATCH_UP")));

const acks = [];
const deliveries = [];
let conversation;
let seq;
for (let i = 0; i < Number(count); i += 1) {
  const start = performance.now();
  const { sendMessage } = await bob.run(SEND, { input: { toUserId: "alice", content: `message ${i}` } });
  acks.push(performance.now() - start);
  conversation = sendMessage.message.conversationId;
  seq = sendMessage.message.seq;
  const events = await Promise.all(
    devices.map((d) => d.expect(`message ${i}`, (e) => e.message?.id === sendMessage.message.id)),
  );
  deliveries.push(Math.max(...events.map((e) => e.at)) - start);
}
console.log(`${count} messages, each on all three devices, in order`);
console.log(`send to ack      p50 ${quantile(acks, 0.5)} ms   p95 ${quantile(acks, 0.95)} ms   p99 ${quantile(acks, 0.99)} ms`);
console.log(`send to deliver  p50 ${quantile(deliveries, 0.5)} ms   p95 ${quantile(deliveries, 0.95)} ms   p99 ${quantile(deliveries, 0.99)} ms`);

const start = performance.now();
await phone.run(READ, { id: conversation });
const cleared = await desk.expect("READ", (e) => e.reason === "READ");
const told = await bob.expect("the receipt", (e) => e.__typename === "ReceiptAdvanced" && e.seq === seq);
const left = cleared.sessions[0].unreadCount;
if (left !== 0) throw new Error(`the desk still shows ${left}`);
console.log(`markRead on the phone clears the desk after ${(cleared.at - start).toFixed(1)} ms, bob sees READ after ${(told.at - start).toFixed(1)} ms`);
await Promise.all(devices.map((d) => d.client.dispose()));
process.exit(0);
