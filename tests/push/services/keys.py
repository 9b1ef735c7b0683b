"""Credentials of a deployment for services of pushes, made for a run of the tests."""

from __future__ import annotations

import json

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

SERVICE_ACCOUNT = rsa.generate_private_key(65_537, 2_048)


def pem(key: PrivateKeyTypes) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def apns_key() -> str:
    """Return the contents of a file AuthKey_….p8."""
    return pem(ec.generate_private_key(ec.SECP256R1()))


def service_account(**changed: object) -> str:
    """Return the JSON file of a service account."""
    fields = {
        "type": "service_account",
        "project_id": "chat-1234",
        "private_key_id": "key-id",
        "private_key": pem(SERVICE_ACCOUNT),
        "client_email": "confab@chat-1234.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    return json.dumps({name: value for name, value in (fields | changed).items() if value is not None})
