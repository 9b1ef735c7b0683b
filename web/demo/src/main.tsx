import { createRoot } from "react-dom/client";

import { App } from "./ui/App";
import { startTheme } from "./ui/account/theme";
import "./ui/base.css";
import "./ui/chat.css";
import "./ui/files/files.css";
import "./ui/moderation/moderation.css";
import "./ui/notifications/notifications.css";
import "./ui/presence/presence.css";
import "./ui/search/search.css";
import "./ui/threads/threads.css";
import "./ui/workspaces/workspaces.css";

startTheme();
createRoot(document.getElementById("root")!).render(<App />);
