"""FCM: pushes to apps on Android, with the API HTTP v1."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

from resolvers.push.push_service import PushMessage, PushOutcome, PushResult
from resolvers.push.services.exchange import (
    PUSH_SECONDS,
    ServiceAnswer,
    ServiceUnreachable,
    Turns,
    clock_note,
    gone,
    in_time,
    is_temporary,
    post_again,
    refused,
    retry_after,
    unreachable,
)
from resolvers.push.services.fcm_tokens import CredentialsRefused, FcmCredentials, FcmTokens
from resolvers.push.services.payload import TTL_SECONDS, encode_payload, reference_of
from store.base.clock import Clock
from store.devices.device import PushAddress

SERVICE = "https://fcm.googleapis.com"

_MOST_BYTES = 4000
"""FCM takes 4096 bytes of texts and data. The JSON around them counts here too, and the token does not."""

_AT_ONCE = 64
_IDLE_SECONDS = 60.0
_QUOTA_SECONDS = 60.0
"""Pause after QUOTA_EXCEEDED, unless FCM asks for another one."""


class Fcm:
    """Sends pushes to the apps of one Firebase project.

    SENDER_ID_MISMATCH is REFUSED and not GONE: FCM answers it to all devices if the credentials are those of another
    project, and a wrong setting must not make the deployment forget all its devices.
    """

    def __init__(
        self,
        credentials: FcmCredentials,
        clock: Clock,
        *,
        url: str = SERVICE,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Open no connection yet. url, ssl_context: for tests."""
        self._url = f"{url}/v1/projects/{credentials.project}/messages:send"
        self._clock = clock
        self._turns = Turns(_AT_ONCE)
        self._client = httpx.AsyncClient(
            verify=ssl_context if ssl_context is not None else True,
            timeout=PUSH_SECONDS,
            limits=httpx.Limits(
                max_connections=_AT_ONCE, max_keepalive_connections=_AT_ONCE, keepalive_expiry=_IDLE_SECONDS
            ),
            headers={"User-Agent": "Confab"},
            follow_redirects=False,
            trust_env=False,
        )
        self._tokens = FcmTokens(credentials, self._client, clock)

    async def close(self) -> None:
        """Close its connections."""
        await self._tokens.close()
        await self._client.aclose()

    async def send(self, address: PushAddress, message: PushMessage) -> PushResult:
        """Send a push once. Raises nothing: failures are outcomes."""
        try:
            async with self._turns.take():
                return await in_time(lambda: self._push(address.token, message))
        except ServiceUnreachable as error:
            return unreachable(str(error))

    async def _push(self, device: str, message: PushMessage) -> PushResult:
        try:
            answer = await self._post(device, message)
        except CredentialsRefused as error:
            return refused(str(error))
        if answer.status == 200:
            return PushResult(PushOutcome.ACCEPTED)
        return self._judge(answer)

    async def _post(self, device: str, message: PushMessage) -> ServiceAnswer:
        envelope = b'{"message":%s}' % encode_payload(
            message, lambda cut: _build(device, cut), _MOST_BYTES + len(device)
        )
        token = await self._tokens.get()
        answer = await post_again(self._client, self._url, _headers(token), envelope)
        if answer.status == 401 and _code_of(answer) != "THIRD_PARTY_AUTH_ERROR":
            self._tokens.forget(token)
            answer = await post_again(self._client, self._url, _headers(await self._tokens.get()), envelope)
        return answer

    def _judge(self, answer: ServiceAnswer) -> PushResult:
        now_ms, code = self._clock.now_ms(), _code_of(answer)
        said = f"status {answer.status}: {code or 'no error code'}: {_error_of(answer).get('message', '')}"
        if code in ("UNREGISTERED", "NOT_FOUND") or (code == "INVALID_ARGUMENT" and _blames_token(answer)):
            return gone(said)
        if answer.status == 429:
            return unreachable(said, retry_after(answer, now_ms) or _QUOTA_SECONDS)
        if is_temporary(answer.status):
            return unreachable(said, retry_after(answer, now_ms))
        if code == "SENDER_ID_MISMATCH":
            return refused(f"{said} (the token belongs to another project than CONFAB_FCM_CREDENTIALS_FILE)")
        return refused(said + (clock_note(answer, now_ms) if answer.status == 401 else ""))


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def _build(device: str, message: PushMessage) -> dict[str, Any]:
    data = {name: str(value) for name, value in reference_of(message).items() if value is not None}
    android: dict[str, Any] = {"collapse_key": message.tag, "ttl": f"{TTL_SECONDS}s"}
    if message.is_quiet:
        # A data message of high priority that shows nothing makes FCM lower the priority of later ones.
        android["priority"] = "NORMAL"
        return {"token": device, "data": data | {"quiet": "true"}, "android": android}
    android |= {"priority": "HIGH", "notification": {"tag": message.tag}}
    notification = {"title": message.title, "body": message.body}
    return {"token": device, "data": data, "notification": notification, "android": android}


def _error_of(answer: ServiceAnswer) -> dict[str, Any]:
    error = answer.json().get("error")
    return error if isinstance(error, dict) else {}


def _details_of(answer: ServiceAnswer) -> list[dict[str, Any]]:
    details = _error_of(answer).get("details")
    return [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []


def _code_of(answer: ServiceAnswer) -> str:
    """Return the error code of FCM, or that of Google's APIs in general; empty if there is none."""
    for details in _details_of(answer):
        if isinstance(details.get("errorCode"), str):
            return str(details["errorCode"])
    status = _error_of(answer).get("status")
    return status if isinstance(status, str) else ""


def _blames_token(answer: ServiceAnswer) -> bool:
    """Return whether INVALID_ARGUMENT is about the token: then FCM names no other field."""
    fields = [
        str(violation.get("field", "")) if isinstance(violation, dict) else ""
        for details in _details_of(answer)
        for violation in details.get("fieldViolations") or ()
    ]
    if fields:
        return all(field == "message.token" for field in fields)
    return "registration token" in str(_error_of(answer).get("message", ""))
