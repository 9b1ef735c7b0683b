// The context of a request: the caller, and loaders for rows by id. On a WebSocket each operation has its own.

import DataLoader from "dataloader";
import { GraphQLError } from "graphql";

export function contextOf(chat, authorization) {
  const viewer = /^Bearer (.+)$/.exec(authorization ?? "")?.[1];
  if (!viewer) throw new GraphQLError("Say who you are.", { extensions: { code: "UNAUTHENTICATED" } });
  return {
    chat,
    viewer,
    users: new DataLoader((ids) => chat.findUsers(ids)),
    conversations: new DataLoader((ids) => chat.findConversations(ids)),
  };
}
