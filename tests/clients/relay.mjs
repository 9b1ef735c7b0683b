import { Suspense, createElement } from "react";
import { RelayEnvironmentProvider } from "react-relay";
import renderer from "react-test-renderer";
import "./build_relay.mjs";
import { relayEnvironment } from "../docs/clients/relay/environment.mjs";
import { openSocket } from "../docs/clients/socket.mjs";
import { noting, sleep, tryClient, until } from "./scenario.mjs";

const { History, SessionList, send, startRelay } = await import("../docs/clients/relay/Chat.mjs");

await tryClient(({ url, token, user }) => {
  const socket = noting(openSocket({ url, token, retryWait: () => sleep(20) }));
  const environment = relayEnvironment({ url, token, socket });
  let stop;
  let tree;
  const show = (...children) => {
    const element = createElement(RelayEnvironmentProvider, { environment }, createElement(Suspense, { fallback: "…" }, ...children));
    if (tree) tree.update(element);
    else tree = renderer.create(element);
  };
  let opened;
  let resets = 0;
  const showAll = () => show(createElement(SessionList, { key: "list" }), createElement(History, { key: opened, fetchKey: resets, conversationId: opened }));
  const all = (type) => (tree?.toJSON() ? tree.root.findAllByType(type) : []);
  const rows = () => all("a");
  return {
    async start() {
      stop = await startRelay(environment, () => { resets += 1; showAll(); });
      show(createElement(SessionList, { key: "list" }));
      await until("the list", () => rows().length > 0);
    },
    titles: () => rows().map(({ children }) => children.join("")),
    unread: (title) => rows().find(({ children }) => children.join("") === title).props["data-unread"],
    async open(conversationId) {
      opened = conversationId;
      showAll();
      await until("the conversation", () => all("p").length > 0);
    },
    older: () => all("button").at(-1).props.onClick(),
    contents: () => all("p").map(({ children }) => children.join("")),
    send: (input) => send(environment, { id: user, displayName: user }, input),
    async stop() {
      stop();
      tree.unmount();
      await socket.dispose();
    },
  };
});
