/** The reactions of a message after one's own was added or removed, as the server will answer them. */
import type { MessageReactionsFragment } from "../gql";

export type Reactions = MessageReactionsFragment["reactions"];

export function withReaction(reactions: Reactions, emoji: string): Reactions {
  const held = reactions.find((each) => each.emoji === emoji);
  if (held?.viewerReacted) return reactions;
  if (held) return reactions.map((each) => (each === held ? { ...each, count: each.count + 1, viewerReacted: true } : each));
  const added = { __typename: "Reaction", emoji, count: 1, viewerReacted: true, firstAt: new Date().toISOString(), users: [] };
  return [...reactions, added as Reactions[number]];
}

export function withoutReaction(reactions: Reactions, emoji: string): Reactions {
  return reactions.flatMap((each) => {
    if (each.emoji !== emoji || !each.viewerReacted) return each;
    return each.count === 1 ? [] : { ...each, count: each.count - 1, viewerReacted: false };
  });
}
