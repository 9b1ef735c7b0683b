/**
 * The events of the channels and threads on the screen. The server sends these events only to subscriptions that name them.
 *
 * Guarantees: missed events arrive first and in order, also those from between two watches. If too many were missed, the history is
 * dropped and loaded again.
 */
import { notFoundError, stoppedError } from "../errors";
import { ChannelEvents, type ChannelEventsSubscription } from "../gql";
import type { Store } from "../store/store";
import { ConfabError, type Api, type Message } from "../types";
import { startWaiters, type Waiters } from "../waiting";
import type { Typing } from "./typing";

/** Pages often reopen a conversation that they have just closed. */
const LEAVE_AFTER_MS = 1_000;

export const isChannelOrThread = (conversationId: string) => /^[ct]_/.test(conversationId);

export interface ChannelFeeds {
  /** Follows the events of a conversation until the returned function is called. */
  watch(id: string): () => void;
  /** Resolves when there is no gap between a page requested from then on and the events. Rejects with a ConfabError. */
  live(id: string): Promise<void>;
  stop(): void;
}

export interface ChannelFeedOptions {
  api: Api;
  store: Store;
  typing: Typing;
  received(message: Message): void;
  pinsChanged(message: Message, pinCount: number): void;
}

interface ChannelFeed {
  watchers: number;
  isFollowed: boolean;
  /** The rev of the last event; null before the first one. */
  rev: number | null;
  stop: () => void;
  waiters: Waiters;
}

export function followChannelFeeds({ api, store, typing, received, pinsChanged }: ChannelFeedOptions): ChannelFeeds {
  const feeds = new Map<string, ChannelFeed>();
  const feedOf = (id: string) => {
    const feed = feeds.get(id) ?? { watchers: 0, isFollowed: false, rev: null, stop: () => {}, waiters: startWaiters() };
    feeds.set(id, feed);
    return feed;
  };

  const leave = (feed: ChannelFeed, error = new ConfabError("The conversation was closed.", "NETWORK", true)) => {
    feed.stop();
    feed.isFollowed = false;
    feed.waiters.settle(error);
  };
  /** Access has ended. Opening the conversation again asks the server again. */
  const end = (id: string, feed: ChannelFeed, error: ConfabError) => {
    feed.stop();
    feed.isFollowed = false;
    feed.rev = null;
    feed.waiters.settle(error);
    // Former members of a group may read what they saw.
    if (isChannelOrThread(id)) store.setRefusal(id, error);
  };

  const apply = (id: string, feed: ChannelFeed, event: ChannelEventsSubscription["channelEvents"]) => {
    if ("rev" in event) feed.rev = event.rev;
    switch (event.__typename) {
      case "ChannelMessage":
        if (event.change !== "CREATED") return store.applyMessages([event.message]);
        // The messages of a group arrive with messageEvents, in order with the missed ones.
        if (!isChannelOrThread(id)) return;
        typing.stopped(id, event.message.sender.id);
        store.addLiveMessage(event.message);
        return received(event.message);
      case "ChannelReactions":
        return store.patchMessage(event.messageId, { reactions: event.reactions });
      case "ChannelPins":
        // Pins of a group arrive with messageEvents.
        return isChannelOrThread(id) ? pinsChanged(event.message, event.pinCount) : undefined;
      case "ChannelThread":
        return store.applyThread(event.parentId, event.thread);
      case "TypingStarted":
        return typing.started(event.conversationId, event.user);
      case "TypingStopped":
        return typing.stopped(event.conversationId, event.user.id);
      case "AccessEnded":
        return end(id, feed, notFoundError());
      case "ChannelCaughtUp":
        if (event.reset && isChannelOrThread(id)) store.dropHistories([id]);
        return feed.waiters.settle();
    }
  };

  return {
    watch: (id) => {
      const feed = feedOf(id);
      feed.watchers += 1;
      if (!feed.isFollowed) {
        feed.isFollowed = true;
        store.clearRefusal(id);
        feed.stop = api.subscribe(ChannelEvents, () => ({ channels: [{ id, rev: feed.rev }] }), {
          next: ({ channelEvents }) => apply(id, feed, channelEvents),
          error: (error) => end(id, feed, error),
        });
      }
      let watching = true;
      return () => {
        if (!watching) return;
        watching = false;
        feed.watchers -= 1;
        setTimeout(() => feed.watchers || leave(feed), LEAVE_AFTER_MS);
      };
    },
    live: (id) => {
      const feed = feedOf(id);
      return feed.rev === null ? feed.waiters.wait() : Promise.resolve();
    },
    stop: () => feeds.forEach((feed) => leave(feed, stoppedError())),
  };
}
