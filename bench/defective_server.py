"""`confab serve` with a bug: a WebSocket fails inside at a ping with the payload {"defect": true}.

It shows the behaviour of clients. Everything else is unchanged.
"""

from __future__ import annotations

from server.cli.commands import main
from subscriptions.transport import frames


def _with_defect() -> None:
    parse = frames.parse_frame

    def parse_frame(text: str, *more: object) -> frames.ClientFrame:
        frame = parse(text, *more)
        if isinstance(frame, frames.Ping) and frame.payload == {"defect": True}:
            raise ZeroDivisionError
        return frame

    frames.parse_frame = parse_frame


if __name__ == "__main__":
    _with_defect()
    main()
