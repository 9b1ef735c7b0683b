"""Signs requests to S3: those of this process, and addresses at which clients send and read blobs themselves."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, urlencode, urlsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

NO_CONTENT = hashlib.sha256(b"").hexdigest()

_SAFE = "/-_.~"
_ROUNDING_SECONDS = 300
"""Addresses that are signed within this time are the same, so that browsers use their caches (ADR 76)."""


@dataclass(frozen=True, slots=True)
class S3Options:
    """A bucket and the access to it.

    Attributes:
        bucket: Its name. Nothing but blobs may be in it.
        region: Its region.
        access_key: Id of the key.
        secret_key: The key.
        endpoint: Address of the S3 service.
        public_endpoint: The same service's address for clients; None: `endpoint`.
        path_style: Addresses have the bucket in the path, not in the host name.
    """

    bucket: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    endpoint: str
    public_endpoint: str | None = None
    path_style: bool = True

    def address(self, name: str = "", *, is_public: bool = False) -> str:
        """Return the address of a blob, or of the bucket."""
        endpoint = (self.public_endpoint if is_public else None) or self.endpoint
        parts = urlsplit(endpoint)
        host, path = parts.netloc, f"{parts.path.rstrip('/')}/"
        if self.path_style:
            path += f"{self.bucket}/"
        else:
            host = f"{self.bucket}.{host}"
        return f"{parts.scheme}://{host}{path}{quote(name, safe=_SAFE)}"


class S3Signer:
    """Signs requests to one bucket with AWS Signature Version 4, by botocore."""

    def __init__(self, options: S3Options, now: Callable[[], float] = time.time) -> None:
        """Create a signer. now: the time in seconds; S3 refuses signatures of other times."""
        self._options = options
        self._now = now
        self._credentials = ReadOnlyCredentials(options.access_key, options.secret_key, None)

    def sign(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, content_sha256: str = NO_CONTENT
    ) -> dict[str, str]:
        """Return the headers of a request, with its signature. It covers the checksum of the content."""
        request = AWSRequest(method, url, headers=dict(headers or {}))
        _HeaderAuth(self._credentials, self._options.region, content_sha256, self._now()).add_auth(request)
        return dict(request.headers.items())

    def sign_upload(self, name: str, size: int, sha256: str | None, seconds: int) -> tuple[str, dict[str, str]]:
        """Return the address for a PUT of exactly this length and checksum, and the headers to send.

        HTTP clients send Content-Length themselves. It is not among the headers, because browsers let no page set it.
        """
        headers = {"x-amz-checksum-sha256": to_base64(sha256)} if sha256 is not None else {}
        url = self._sign_address("PUT", name, self._now(), seconds, headers | {"content-length": str(size)})
        return url, headers

    def sign_download(self, name: str, content_type: str, disposition: str, seconds: int) -> str:
        """Return the address for a GET, valid for `seconds` and up to five minutes more."""
        now = self._now()
        query = {"response-content-type": content_type, "response-content-disposition": disposition}
        return self._sign_address("GET", name, now - now % _ROUNDING_SECONDS, seconds + _ROUNDING_SECONDS, {}, query)

    def _sign_address(
        self,
        method: str,
        name: str,
        at: float,
        seconds: int,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
    ) -> str:
        url = self._options.address(name, is_public=True)
        request = AWSRequest(method, f"{url}?{urlencode(query, quote_via=quote)}" if query else url, dict(headers))
        _AddressAuth(self._credentials, self._options.region, seconds, at).add_auth(request)
        return str(request.url)


def to_base64(sha256: str) -> str:
    """Return a checksum in the form of S3's headers."""
    return base64.b64encode(bytes.fromhex(sha256)).decode()


def to_hexadecimal(checksum: str | None) -> str | None:
    """Return the checksum of a header of S3. None if it is not that of the whole blob."""
    return None if checksum is None or "-" in checksum else base64.b64decode(checksum).hex()


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")


class _HeaderAuth(S3SigV4Auth):  # type: ignore[misc]  # botocore has no types
    """The signature in a header, at a given time. The checksum of the content is known, and is not computed here."""

    def __init__(self, credentials: ReadOnlyCredentials, region: str, content_sha256: str, at: float) -> None:
        super().__init__(credentials, "s3", region)
        self._content_sha256 = content_sha256
        self._at = at

    def payload(self, request: AWSRequest) -> str:
        return self._content_sha256

    def add_auth(self, request: AWSRequest) -> None:
        _add_signature(self, request, self._at)


class _AddressAuth(S3SigV4QueryAuth):  # type: ignore[misc]
    """The signature in an address, at a given time. All headers of the request are signed."""

    def __init__(self, credentials: ReadOnlyCredentials, region: str, seconds: int, at: float) -> None:
        super().__init__(credentials, "s3", region, expires=seconds)
        self._at = at

    def add_auth(self, request: AWSRequest) -> None:
        _add_signature(self, request, self._at)


def _add_signature(auth: S3SigV4Auth | S3SigV4QueryAuth, request: AWSRequest, at: float) -> None:
    """Do what `add_auth` of botocore does, which always takes the current time."""
    request.context["timestamp"] = _timestamp(at)
    auth._modify_request_before_signing(request)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    auth._inject_signature_to_request(request, auth.signature(text, request))
