import type { Session } from "@confab/client";

import type { PreviewPartsFragment } from "../gql";

export type Status = "pending" | "failed" | "sent" | "delivered" | "read";

type PeerPositions = Pick<Session, "peerDeliveredSeq" | "peerReadSeq"> | null | undefined;

/** The delivery state of the user's own message: in private conversations from the other person's positions, which events move; in groups as counted by the server. */
export function statusOf(message: Pick<PreviewPartsFragment, "seq" | "delivery">, positions: PeerPositions): Status {
  if (message.delivery?.status === "READ" || message.seq <= (positions?.peerReadSeq ?? -1)) return "read";
  return message.delivery?.status === "DELIVERED" || message.seq <= (positions?.peerDeliveredSeq ?? -1) ? "delivered" : "sent";
}

const NAMES = { pending: "Waiting", failed: "Not sent", sent: "Sent", delivered: "Delivered", read: "Read" };

export function Ticks({ status }: { status: Status }) {
  const two = status === "delivered" || status === "read";
  return (
    <svg className={`ticks ${status}`} viewBox="0 0 20 14" role="img" aria-label={NAMES[status]}>
      {status === "pending" && <path d="M13 4v3.5l2 1.2M18.5 7a5.5 5.5 0 1 1-11 0 5.5 5.5 0 0 1 11 0" />}
      {status === "failed" && <path d="M13 3.5v4M13 10v.1M18.5 7a5.5 5.5 0 1 1-11 0 5.5 5.5 0 0 1 11 0" />}
      {status !== "pending" && status !== "failed" && <path d={two ? "M1.5 7.5l3.5 3.5L12.5 3M8.5 9.7l1.3 1.3L17.5 3" : "M5 7.5L8.5 11 16 3"} />}
    </svg>
  );
}
