"""Serve the built site on this machine.

Use: python -m docs.site.serve FOLDER PORT
"""

from __future__ import annotations

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Handler(SimpleHTTPRequestHandler):
    """Sends files. Texts are UTF-8."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".txt": "text/plain; charset=utf-8"}

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal shows the address."""


def serve(folder: str, port: int) -> None:
    """Serve a folder until Ctrl-C."""
    with ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, directory=folder)) as server:
        print(f"The documentation is at http://127.0.0.1:{server.server_port} (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
