import type { Message, User } from "@confab/client";

import { ReceiptsDocument, type ReceiptsQuery } from "../../gql";
import { Avatar } from "../Avatar";
import { Dialog } from "../Dialog";
import { day, plural, time } from "../format";
import { useLatestUser } from "../presence/usePresence";
import { Ticks } from "../Ticks";
import { useAnswer, useLiveEvents, useApp } from "../appContext";

/** The people who have received and read the user's message; updated while it is open. */
export function MessageInfo({ message, close }: { message: Message; close: () => void }) {
  const { answers } = useApp();
  const { data } = useAnswer(ReceiptsDocument, { id: message.id });
  useLiveEvents((event) => {
    if (event.__typename === "ReceiptAdvanced" && event.conversationId === message.conversationId) answers.refresh(ReceiptsDocument);
  });
  const delivery = data?.message?.delivery;
  return (
    <Dialog title="Message info" close={close}>
      <p className="quoted">{message.content ?? "Message recalled"}</p>
      <p className="hint">
        {delivery ? `Read by ${delivery.readCount} and received by ${delivery.deliveredCount} of ${plural(delivery.recipientCount, "person").replace("persons", "people")}` : "Loading…"}
      </p>
      <ul className="members" aria-label="Receipts">
        {data?.message?.receipts?.edges.map(({ node }) => <Receipt key={node.user.id} {...node} />)}
      </ul>
    </Dialog>
  );
}

type ReceiptNode = NonNullable<NonNullable<ReceiptsQuery["message"]>["receipts"]>["edges"][number]["node"];

function Receipt({ user: given, status, deliveredAt, readAt }: ReceiptNode) {
  const user: User = useLatestUser(given);
  const when = (at: string) => `${day(at)}, ${time(at)}`;
  return (
    <li>
      <Avatar id={user.id} name={user.displayName} url={user.avatarUrl} small />
      <span>{user.displayName}</span>
      <small>{readAt ? `Read ${when(readAt)}` : deliveredAt ? `Delivered ${when(deliveredAt)}` : "Sent"}</small>
      <Ticks status={status === "READ" ? "read" : status === "DELIVERED" ? "delivered" : "sent"} />
    </li>
  );
}
