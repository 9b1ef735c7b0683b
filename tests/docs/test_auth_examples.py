"""The examples in docs/auth.md that make tokens work."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import Any

import jwt
import pytest

from tests.docs.blocks import blocks

PAGE = {block.language: block.text for block in blocks() if block.page == "docs/auth.md" and block.kind}
SECRET = "a-random-text-of-at-least-32-bytes-from-openssl-rand"


def test_a_backend_signs_a_token() -> None:
    names: dict[str, Any] = {"SECRET": SECRET}
    exec(PAGE["python"], names)
    claims = jwt.decode(names["token"], SECRET, algorithms=["HS256"])
    assert (claims["sub"], claims["name"]) == ("7", "Ann Lee")
    assert 0 < claims["exp"] - time.time() <= 900


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_an_action_of_auth0_adds_the_claims() -> None:
    program = f"""
        {PAGE["js"]}
        const claims = {{}};
        const api = {{ accessToken: {{ setCustomClaim: (name, value) => {{ claims[name] = value; }} }} }};
        const user = {{ name: "Ann", picture: "https://example.org/ann.png" }};
        exports.onExecutePostLogin({{ user, authorization: {{ roles: ["service"] }} }}, api)
            .then(() => console.log(JSON.stringify(claims)));
    """
    run = subprocess.run(["node", "--input-type=commonjs", "-e", program], capture_output=True, text=True, check=True)
    claims = json.loads(run.stdout)
    assert claims == {
        "https://chat.example.org/name": "Ann",
        "https://chat.example.org/picture": "https://example.org/ann.png",
        "https://chat.example.org/roles": ["service"],
    }
