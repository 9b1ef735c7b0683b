// The GraphiQL page: a field for the token, which goes with every request and every WebSocket, and some operations to
// start from. React, GraphiQL, GraphiQLPluginExplorer and graphqlWs are globals, loaded before this file.
"use strict";

const STORED_TOKEN = "confab:token";
const address = location.origin + location.pathname;

const EXAMPLES = [
  `# Ctrl-Enter or the pink button runs this.
query Home {
  me {
    id
    displayName
  }
  totalUnread
  sessions(first: 20) {
    edges {
      node {
        conversation {
          id
          type
          title
        }
        unreadCount
        writeTs
        lastMessage {
          seq
          sender {
            displayName
          }
          content
          createdAt
        }
      }
    }
    cursor
  }
}
`,
  `mutation Send {
  sendMessage(input: { toUserId: "bob", content: "Hello!" }) {
    message {
      id
      seq
      createdAt
    }
    session {
      conversation {
        id
      }
      writeSeq
    }
  }
}
`,
  `# Stays open: now send something from elsewhere.
subscription Live {
  messageEvents {
    __typename
    ... on MessageCreated {
      message {
        conversationId
        seq
        sender {
          displayName
        }
        content
      }
    }
    ... on ReceiptAdvanced {
      conversationId
      user {
        displayName
      }
      status
      seq
    }
    ... on CaughtUp {
      cursor
      reset
    }
  }
}
`,
];

// --- the token

const field = document.getElementById("token");
const whoami = document.getElementById("whoami");
const reveal = document.getElementById("reveal");

function storedToken() {
  try {
    return localStorage.getItem(STORED_TOKEN) ?? "";
  } catch {
    return ""; // Storage is switched off: the token lives as long as the page.
  }
}

function storeToken(token) {
  try {
    if (token) localStorage.setItem(STORED_TOKEN, token);
    else localStorage.removeItem(STORED_TOKEN);
  } catch {
    // As above.
  }
}

// A token in the address is taken out of it, so that it stays in no history and no bookmark.
function tokenFromAddress() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(null, "", location.pathname + location.search);
  return token;
}

function claimsOf(token) {
  try {
    const bytes = atob(token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/"));
    return JSON.parse(decodeURIComponent(Array.from(bytes, (c) => "%" + c.charCodeAt(0).toString(16).padStart(2, "0")).join("")));
  } catch {
    return null;
  }
}

function duration(seconds) {
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    const count = Math.floor(seconds / length);
    if (count >= 1) return `${count} ${unit}${count > 1 ? "s" : ""}`;
  }
  return "less than a minute";
}

function describe(token) {
  if (!token) return ["", "Without a token there is only the documentation."];
  const claims = claimsOf(token);
  if (!claims || typeof claims !== "object") return ["bad", "This is no token."];
  const who = claims.role && claims.role !== "user" ? `${claims.sub} (${claims.role})` : claims.sub;
  const left = claims.exp - Date.now() / 1000;
  return left > 0 ? ["good", `${who}, for ${duration(left)}`] : ["bad", `${who}: this token has expired.`];
}

function showIdentity() {
  const [kind, text] = describe(identity.token);
  whoami.className = kind;
  whoami.textContent = text;
}

const identity = { token: tokenFromAddress() ?? storedToken(), listener: () => {} };

function setToken(token) {
  identity.token = token.trim().replace(/^Bearer\s+/i, "");
  storeToken(identity.token);
  showIdentity();
  identity.listener(identity.token);
}

field.value = identity.token;
storeToken(identity.token);
showIdentity();
setInterval(showIdentity, 30_000);
field.addEventListener("input", () => setToken(field.value));
document.getElementById("identity").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("forget").addEventListener("click", () => {
  field.value = "";
  setToken("");
});
addEventListener("hashchange", () => {
  const token = tokenFromAddress();
  if (token) {
    field.value = token;
    setToken(token);
  }
});
reveal.addEventListener("click", () => {
  const shown = field.type === "password";
  field.type = shown ? "text" : "password";
  reveal.textContent = shown ? "Hide" : "Show";
  reveal.setAttribute("aria-pressed", String(shown));
});

// --- requests

function authorizationIn(headers) {
  const name = Object.keys(headers ?? {}).find((key) => key.toLowerCase() === "authorization");
  return name === undefined ? undefined : headers[name];
}

// Failures are shown as answers: GraphiQL's own handling of them leaves rejections that nobody catches.
function tellFailures(wsClient) {
  const errorsOf = (failure) => {
    if (Array.isArray(failure)) return failure;
    if (failure instanceof CloseEvent) {
      return [{ message: `The connection was closed: ${failure.code} ${failure.reason}`.trim() }];
    }
    return [{ message: failure instanceof Error ? failure.message : "The connection failed." }];
  };
  return {
    ...wsClient,
    subscribe: (payload, sink) =>
      wsClient.subscribe(payload, {
        next: (result) => sink.next(result),
        complete: () => sink.complete(),
        error: (failure) => {
          sink.next({ errors: errorsOf(failure) });
          sink.complete();
        },
      }),
  };
}

// One fetcher a token. What the headers editor says goes before the token's field, on the WebSocket too.
function makeFetcher(token) {
  const ofField = token ? `Bearer ${token}` : undefined;
  let authorization = ofField;
  const wsClient = graphqlWs.createClient({
    url: address.replace(/^http/, "ws"),
    connectionParams: () => (authorization ? { Authorization: authorization } : {}),
    retryAttempts: 10,
    // 4403 says that the token was refused: the same one would be again.
    shouldRetry: (event) => typeof event.code === "number" && event.code !== 4403,
  });
  const base = GraphiQL.createFetcher({ url: address, wsClient: tellFailures(wsClient), enableIncrementalDelivery: false });
  const fetcher = (parameters, options = {}) => {
    const chosen = authorizationIn(options.headers) ?? ofField;
    if (chosen !== authorization) {
      authorization = chosen;
      wsClient.terminate();
    }
    const headers = { ...options.headers };
    if (ofField && authorizationIn(headers) === undefined) headers.Authorization = ofField;
    return base(parameters, { ...options, headers });
  };
  return { fetcher, dispose: () => wsClient.dispose() };
}

// --- the page

function Page() {
  const [token, setPageToken] = React.useState(identity.token);
  // Typing a token by hand should not fetch the schema at every letter.
  React.useEffect(() => {
    let timer;
    identity.listener = (next) => {
      clearTimeout(timer);
      timer = setTimeout(() => setPageToken(next), 300);
    };
  }, []);
  const connection = React.useMemo(() => makeFetcher(token), [token]);
  React.useEffect(() => () => connection.dispose(), [connection]);
  const explorer = React.useMemo(() => GraphiQLPluginExplorer.explorerPlugin(), []);
  const asked = new URLSearchParams(location.search);
  return React.createElement(GraphiQL, {
    fetcher: connection.fetcher,
    plugins: [explorer],
    defaultTabs: EXAMPLES.map((query) => ({ query })),
    defaultQuery: EXAMPLES[0],
    query: asked.get("query") ?? undefined,
    variables: asked.get("variables") ?? undefined,
    operationName: asked.get("operationName") ?? undefined,
    isHeadersEditorEnabled: true,
    defaultEditorToolsVisibility: false,
    // Headers may hold another token than the field's; they are not to be kept.
    shouldPersistHeaders: false,
    inputValueDeprecation: true,
  });
}

const place = document.getElementById("graphiql");
if (["React", "ReactDOM", "GraphiQL", "GraphiQLPluginExplorer", "graphqlWs"].every((name) => name in window)) {
  ReactDOM.createRoot(place).render(React.createElement(Page));
} else {
  place.querySelector(".notice").textContent =
    "GraphiQL's libraries could not be loaded. With a way to unpkg.com they come from there; otherwise install npm, run make graphiql-assets and start the server again. The API itself works without them.";
}
