// A first client without a library: it signs in, lists sessions, listens, and sends a message that it then receives.
// Use: node first.mjs http://127.0.0.1:8000
const origin = process.argv[2];
const json = { "content-type": "application/json" };

// In production your identity provider gives the token.
const signIn = { method: "POST", headers: json, body: JSON.stringify({ userId: "alice" }) };
const { token } = await (await fetch(`${origin}/dev/sign-in`, signIn)).json();

function execute(query, variables, headers) {
  const body = JSON.stringify({ query, variables });
  return fetch(`${origin}/graphql`, { method: "POST", headers: { ...json, authorization: `Bearer ${token}`, ...headers }, body });
}

async function request(query, variables) {
  const { data, errors } = await (await execute(query, variables)).json();
  if (errors) throw new Error(errors[0].message);
  return data;
}

// Calls take for each event, until it returns true. Server-sent events need no library.
async function listen(query, take) {
  const response = await execute(query, {}, { accept: "text/event-stream" });
  let text = "";
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    text += part;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const [, data] = text.slice(0, end).match(/^event: next\ndata: (.*)$/) ?? [];
      if (data && (await take(JSON.parse(data).data))) return;
    }
  }
}

const { sessions } = await request("{ sessions { totalUnread edges { node { unreadCount conversation { title } } } } }");
for (const { node } of sessions.edges) console.log(node.conversation.title, node.unreadCount);

const content = `Hello from my first client, at ${new Date().toISOString()}`;
const EVENTS = `subscription {
  messageEvents { __typename ... on MessageCreated { message { content sender { displayName } } } }
}`;
await listen(EVENTS, async ({ messageEvents: { __typename, message } }) => {
  // CaughtUp: everything from now on is live.
  if (__typename === "CaughtUp") {
    await request("mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }", {
      input: { toUserId: "bob", content, idempotencyKey: crypto.randomUUID() },
    });
  }
  if (message) console.log(`${message.sender.displayName}: ${message.content}`);
  return message?.content === content;
});
