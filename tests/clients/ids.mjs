import assert from "node:assert/strict";
import { privateConversationId } from "../docs/clients/ids.mjs";
import { Person, done } from "./scenario.mjs";

for (const [a, b, id] of [
  ["alice", "bob", "p_alice_bob"],
  ["user_2N", "auth0|7", "p_auth0%7C7_user%5F2N"],
  ["a-b.c@d", "~", "p_a-b.c@d_%7E"],
  ["%", "/", "p_%25_%2F"],
  ["ab", "a", "p_a_ab"],
  ["zo\u00eb", "!*'()", "p_%21%2A%27%28%29_zo%C3%AB"],
  // By code point, not by UTF-16 unit.
  ["\u{1f600}", "\uff5e", "p_%EF%BD%9E_%F0%9F%98%80"],
]) {
  assert.equal(privateConversationId(a, b), id);
  assert.equal(privateConversationId(b, a), id);
}
assert.equal(privateConversationId("bob", "alice", "shop"), "p_alice_bob~shop");
done("the id of a private conversation");

const [one, other] = [new Person("auth0|7"), new Person("user_2N\u{1f600}")];
await other.ask("{ me { id } }");
const { conversationId } = await one.send(other.name, "hello");
assert.equal(conversationId, privateConversationId(other.name, one.name));
done("the server's id is the same");
