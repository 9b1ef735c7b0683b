import { Suspense, createElement } from "react";
import { RelayEnvironmentProvider } from "react-relay";
import renderer from "react-test-renderer";
import { relayEnvironment } from "../docs/clients/relay/environment.mjs";
import { quickSocket, tryClient, until } from "./scenario.mjs";

const { History, SessionList, startRelay } = await import("../docs/clients/relay/Chat.mjs");
const { relayAct } = await import("../docs/clients/relay/actions.mjs");

await tryClient(({ url, token }) => {
  const socket = quickSocket({ url, token });
  const environment = relayEnvironment({ url, token, socket });
  let chat;
  let stop;
  let tree;
  let opened;
  const show = (reading = null) => {
    const children = [createElement(SessionList, { key: "list", chat, openId: reading })];
    if (opened) children.push(createElement(History, { key: opened, chat, conversationId: opened }));
    const element = createElement(RelayEnvironmentProvider, { environment }, createElement(Suspense, { fallback: "…" }, ...children));
    if (tree) tree.update(element);
    else tree = renderer.create(element);
  };
  const all = (type) => (tree?.toJSON() ? tree.root.findAllByType(type) : []);
  const text = ({ children }) => children.filter((child) => typeof child === "string").join("");
  const row = (title) => all("a").find((each) => text(each) === title);
  return {
    act: relayAct(environment),
    async start(given) {
      chat = given;
      stop = await startRelay(environment, chat);
      show();
      await until("the list", () => all("a").length > 0);
    },
    titles: () => all("a").map(text),
    unread: (title) => row(title)?.props["data-unread"],
    async read(title) {
      show(row(title).props.href.slice(1));
      await until("it is read", () => row(title)?.props["data-unread"] === 0);
      show();
    },
    async open(conversationId) {
      opened = conversationId;
      show();
      await until("the conversation", () => all(History).some((history) => history.props.conversationId === opened && history.findAllByType("div").length > 0));
    },
    older: () => all("button").at(-1).props.onClick(),
    contents: () => all("p").map(text),
    async stop() {
      stop();
      tree.unmount();
      await socket.dispose();
    },
  };
});
