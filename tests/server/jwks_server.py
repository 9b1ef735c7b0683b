"""An identity provider on this machine that publishes a JWK set."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm


def jwk(key: Any, kid: str | None, **more: Any) -> dict[str, Any]:
    algorithm: Any = OKPAlgorithm
    if isinstance(key, rsa.RSAPrivateKey):
        algorithm = RSAAlgorithm
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        algorithm = ECAlgorithm
    member = algorithm.to_jwk(key.public_key(), as_dict=True)
    return {**member, **({"kid": kid} if kid else {}), **more}


@dataclass
class JwksServer:
    """An identity provider on this machine that publishes `keys` with `status`."""

    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    requests: int = 0


@contextmanager
def serving_keys() -> Iterator[JwksServer]:
    """Serve a JWK set on this machine for the duration of the block."""
    state = JwksServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests += 1
            body = json.dumps({"keys": state.keys}).encode()
            self.send_response(state.status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}/jwks.json"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    server.shutdown()
    thread.join()
    server.server_close()
