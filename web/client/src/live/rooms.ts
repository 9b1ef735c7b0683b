/**
 * The events of the channels and threads on the screen. The server sends these events only to subscriptions that name them.
 *
 * Guarantees: missed events come first and in order, also those between two watches. If too many were missed, the
 * history is dropped and loaded again.
 */
import { notFoundError, stoppedError } from "../errors";
import { ChannelEvents, type ChannelEventsSubscription } from "../gql";
import type { Store } from "../store/store";
import { ConfabError, type Api, type Message } from "../types";
import { startWaiters, type Waiters } from "../waiting";
import type { Typing } from "./typing";

/** Pages often reopen a conversation that they have just closed. */
const LEAVE_AFTER_MS = 1_000;

export const isRoom = (conversationId: string) => /^[ct]_/.test(conversationId);

export interface Rooms {
  /** Follows the events of a conversation until the returned function is called. */
  watch(id: string): () => void;
  /** Resolves when there is no gap between a page requested from then on and the events. Rejects with a ConfabError. */
  live(id: string): Promise<void>;
  stop(): void;
}

export interface RoomOptions {
  api: Api;
  store: Store;
  typing: Typing;
  received(message: Message): void;
  pinsChanged(channelId: string, pinCount: number): void;
}

interface Room {
  watchers: number;
  isFollowed: boolean;
  /** The rev of the last event; null before the first one. */
  rev: number | null;
  stop: () => void;
  waiters: Waiters;
}

export function followRooms({ api, store, typing, received, pinsChanged }: RoomOptions): Rooms {
  const rooms = new Map<string, Room>();
  const roomOf = (id: string) => {
    const room = rooms.get(id) ?? { watchers: 0, isFollowed: false, rev: null, stop: () => {}, waiters: startWaiters() };
    rooms.set(id, room);
    return room;
  };

  const leave = (room: Room, error = new ConfabError("The conversation was closed.", "NETWORK", true)) => {
    room.stop();
    room.isFollowed = false;
    room.waiters.settle(error);
  };
  /** Access has ended. Opening the conversation again asks the server again. */
  const end = (id: string, room: Room, error: ConfabError) => {
    room.stop();
    room.isFollowed = false;
    room.rev = null;
    room.waiters.settle(error);
    // Former members of a group may read what they saw.
    if (isRoom(id)) store.refuse(id, error);
  };

  const apply = (id: string, room: Room, event: ChannelEventsSubscription["channelEvents"]) => {
    if ("rev" in event) room.rev = event.rev;
    switch (event.__typename) {
      case "ChannelMessage":
        if (event.change !== "CREATED") return store.applyMessages([event.message]);
        // The messages of a group come with messageEvents, in order with the missed ones.
        if (!isRoom(id)) return;
        typing.stopped(id, event.message.sender.id);
        store.arrive(event.message);
        return received(event.message);
      case "ChannelReactions":
        return store.patchMessage(event.messageId, { reactions: event.reactions });
      case "ChannelPins":
        store.patchMessage(event.message.id, { isPinned: event.message.isPinned });
        return pinsChanged(event.conversationId, event.pinCount);
      case "ChannelThread":
        return store.patchMessage(event.parentId, { thread: event.thread });
      case "TypingStarted":
        return typing.started(event.conversationId, event.user);
      case "TypingStopped":
        return typing.stopped(event.conversationId, event.user.id);
      case "AccessEnded":
        return end(id, room, notFoundError());
      case "ChannelCaughtUp":
        if (event.reset && isRoom(id)) store.dropHistories([id]);
        return room.waiters.settle();
    }
  };

  return {
    watch: (id) => {
      const room = roomOf(id);
      room.watchers += 1;
      if (!room.isFollowed) {
        room.isFollowed = true;
        store.allow(id);
        room.stop = api.subscribe(ChannelEvents, () => ({ channels: [{ id, rev: room.rev }] }), {
          next: ({ channelEvents }) => apply(id, room, channelEvents),
          error: (error) => end(id, room, error),
        });
      }
      let watching = true;
      return () => {
        if (!watching) return;
        watching = false;
        room.watchers -= 1;
        setTimeout(() => room.watchers || leave(room), LEAVE_AFTER_MS);
      };
    },
    live: (id) => {
      const room = roomOf(id);
      return room.rev === null ? room.waiters.wait() : Promise.resolve();
    },
    stop: () => rooms.forEach((room) => leave(room, stoppedError())),
  };
}
