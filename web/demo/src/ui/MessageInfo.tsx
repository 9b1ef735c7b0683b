import type { Message } from "@confab/client";


import { ReceiptsDocument } from "../gql";
import { Avatar } from "./Avatar";
import { Dialog } from "./Dialog";
import { day, plural, time } from "./format";
import { Ticks } from "./Ticks";
import { useAsked, useLiveEvents } from "./world";

/** The people who have received and read the user's message; updated while it is open. */
export function MessageInfo({ message, close }: { message: Message; close: () => void }) {
  const [{ data }, again] = useAsked({ query: ReceiptsDocument, variables: { id: message.id }, requestPolicy: "cache-and-network" });
  useLiveEvents((event) => {
    if (event.__typename === "ReceiptAdvanced" && event.conversationId === message.conversationId) again({ requestPolicy: "network-only" });
  });
  const delivery = data?.message?.delivery;
  const when = (at: string) => `${day(at)}, ${time(at)}`;
  return (
    <Dialog title="Message info" close={close}>
      <p className="quoted">{message.content ?? "Message recalled"}</p>
      <p className="hint">
        {delivery ? `Read by ${delivery.readCount} and received by ${delivery.deliveredCount} of ${plural(delivery.recipientCount, "person").replace("persons", "people")}` : "Loading…"}
      </p>
      <ul className="members" aria-label="Receipts">
        {data?.message?.receipts?.edges.map(({ node: { user, status, deliveredAt, readAt } }) => (
          <li key={user.id}>
            <Avatar id={user.id} name={user.displayName} url={user.avatarUrl} small />
            <span>{user.displayName}</span>
            <small>{readAt ? `Read ${when(readAt)}` : deliveredAt ? `Delivered ${when(deliveredAt)}` : "Sent"}</small>
            <Ticks status={status === "READ" ? "read" : status === "DELIVERED" ? "delivered" : "sent"} />
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
