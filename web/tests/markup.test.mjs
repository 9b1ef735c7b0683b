// The markup of messages (demo/src/ui/text/markup.ts): node --test markup.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const entry = fileURLToPath(new URL("../demo/src/ui/text/markup.ts", import.meta.url));
const [{ output }] = await build({ configFile: false, logLevel: "silent", build: { write: false, minify: false, lib: { entry, formats: ["es"] } } });
const { isOnlyEmoji, plainText, readMarkup } = await import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);

const text = (text) => ({ kind: "text", text });
const bold = (...inner) => ({ kind: "bold", inner });
const italic = (...inner) => ({ kind: "italic", inner });
const link = (href, host, words) => ({ kind: "link", href, host, inner: [text(words)] });

const reads = (content, ...marks) => assert.deepEqual(readMarkup(content), marks);

test("bold, italic, struck out and code are read, also inside of each other", () => {
  reads("**a _b_** ~~c~~ `d *e*`", bold(text("a "), italic(text("b"))), text(" "), { kind: "struck", inner: [text("c")] }, text(" "), { kind: "code", text: "d *e*" });
});

test("characters inside of words are no markup", () => {
  for (const content of ["snake_case_name", "2*3*4", "a * b * c", "readme.md", "5 > 3", "#5", "a < b && c > d"]) reads(content, text(content));
});

test("lines, quotes, lists and blocks of code keep their order", () => {
  reads("one\ntwo", text("one"), { kind: "break" }, text("two"));
  reads("> a\n\nb", { kind: "quote", inner: [text("a")] }, text("b"));
  reads("x\n- a\n- **b**", text("x"), { kind: "list", first: null, items: [[text("a")], [bold(text("b"))]] });
  reads("3. a", { kind: "list", first: 3, items: [[text("a")]] });
  reads("x\n```js\nlet a = `1`;\n\nlet b;\n```\ny", text("x"), { kind: "codeBlock", text: "let a = `1`;\n\nlet b;" }, text("y"));
});

test("HTML, images, headings, tables and rules stay as they were written", () => {
  for (const content of ["<b>a</b><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "![a](https://x.org/a.png)", "# a", "&lt;b&gt; &amp;", "<!-- a -->"]) reads(content, text(content));
  assert.equal(plainText("| a |\n|---|\n| b |"), "| a | |---| | b |");
  assert.equal(plainText("a\n---\n***"), "a --- ***");
});

test("only web addresses are links, and a link shows where it leads", () => {
  reads("https://x.org/a_b_c.", link("https://x.org/a_b_c", null, "https://x.org/a_b_c"), text("."));
  reads("www.x.org", link("http://www.x.org/", null, "www.x.org"));
  reads("[https://bank.example](https://x.org/a)", link("https://x.org/a", "x.org", "https://bank.example"));
  for (const content of ["[a](javascript:alert(1))", "[a](data:text/html,b)", "[a](/b)", "[a](vbscript:b)", "javascript:alert(1)", "me@x.org", "[a](<java\nscript:b>)"]) {
    assert.ok(!JSON.stringify(readMarkup(content)).includes('"link"'), content);
  }
});

test("mentions are found by their names, which may contain markup", () => {
  const mention = (text) => ({ kind: "mention", text });
  assert.deepEqual(readMarkup("@Al *hi @Al_B_* `@Al`", ["@Al", "@Al_B_"]), [mention("@Al"), text(" "), italic(text("hi "), mention("@Al_B_")), text(" "), { kind: "code", text: "@Al" }]);
  reads("@Al", text("@Al"));
});

test("every text is read, and none takes long", () => {
  const pieces = ["*", "_", "**a_", "~~", "`", "[", "[a](", "![", ">", "> ", "- ", "1. ", "<", "\\", "&", "\n", " ", "a@", "www.", "*a ", "```\n", "> - ", "  - a\n", "\u202e*", "😀_"];
  for (const piece of pieces) {
    const content = piece.repeat(4_000 / piece.length);
    const before = process.cpuUsage();
    assert.ok(Array.isArray(readMarkup(content)), piece);
    const { user } = process.cpuUsage(before);
    assert.ok(user < 1_000_000, `${JSON.stringify(piece)} took ${user / 1000} ms`);
  }
  const nested = Array.from({ length: 80 }, (_, depth) => `${" ".repeat(2 * depth)}- a\n`).join("");
  assert.deepEqual(readMarkup(nested), [text(nested)]);
  assert.deepEqual(readMarkup(""), []);
});

test("markup that is nested too deeply stays text", () => {
  const marks = JSON.stringify(readMarkup(`${"> ".repeat(30)}**a**`));
  assert.equal(marks.match(/"quote"/g).length, 9);
  assert.ok(marks.includes("**a**"));
});

test("a line of a list shows the text without its markup", () => {
  assert.equal(plainText("**a** _b_ `c`\n- d\n- [e](https://x.org)\n> f\n```\ng\n```"), "a b c d e f g");
});

test("a few emoji are recognised, and digits are not", () => {
  for (const content of ["👍", "👨‍👩‍👧 ❤️", "🇩🇪🇫🇷", "1️⃣", "👍🏽👍🏽", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "😀\n😀"]) assert.ok(isOnlyEmoji(content), content);
  for (const content of ["", " ", "1", "12", "#1", "*", "a👍", "👍👍👍👍👍👍👍", "©a"]) assert.ok(!isOnlyEmoji(content), content);
});
