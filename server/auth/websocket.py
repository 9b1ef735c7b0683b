"""Authentication of WebSockets: the token is in the payload of connection_init."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from resolvers.base.errors import Banned, Forbidden, InvalidInput, RateLimited, Unauthenticated, Unavailable
from resolvers.users.callers import Caller, act_as
from server.auth.acting import ACT_AS_KEY, parse_act_as_payload
from server.auth.authenticator import bearer_token
from server.auth.given_device import parse_device
from server.overload.load_shedding import LoadShedding
from store.base.ids import UserId
from subscriptions.presence.connected_devices import DeviceConnection, GivenDevice
from subscriptions.transport.close_codes import DEVICE_REMOVED, FORBIDDEN, INVALID_MESSAGE, TRY_AGAIN_LATER, Close
from subscriptions.transport.engine import Json, RequestRefused
from subscriptions.transport.websocket import Authenticate, Authenticated, ConnectionRefusedByAuth

NEEDS_TOKEN = FORBIDDEN.because("A token is needed: send Authorization: Bearer <token> in connection_init.")
ConnectDevice = Callable[[UserId, GivenDevice, Callable[[], None]], DeviceConnection]
"""Connects a device of a user. It gets the call that ends the connection when the device is removed."""

OVERLOADED = TRY_AGAIN_LATER.because("Try again later: overloaded")


def websocket_authenticator(
    authenticate: Callable[[str], Awaitable[Caller]],
    sign_in: Callable[[Caller], Awaitable[None]],
    load_shedding: LoadShedding,
    count_connection: Callable[[Caller], None] = lambda caller: None,
    check_caller: Callable[[None], None] = lambda caller: None,
    connect_device: ConnectDevice | None = None,
    check_acting: Callable[[Caller], None] = lambda caller: None,
) -> Authenticate:
    """Return a function that authenticates the payload of a connection_init.

    The token is in `Authorization` or `authorization`, as "Bearer <token>". Without it the connection is anonymous,
    and refused if `check_caller(None)` raises RequestRefused.
    `actAs` names the user that the caller acts for. The connection counts towards that user's limits. `deviceId` and
    `deviceType` name the device of that user which connects.

    Close codes:
        4403: a token is needed, is refused, or may not act for users, or the user is banned; the reason says why.
            Clients reconnect, possibly with a new token.
        4400: `actAs` is not a user id, `deviceId` not the id of a device, or `deviceType` not a type. Clients give up.
        1013: the process is overloaded, the token cannot be checked at the moment, or `count_connection` raised
            RateLimited because the user opens too many connections. In the last case the reason says when to retry.

    Signing in counts as an operation.
    """

    async def authenticate_payload(payload: Json | None) -> Authenticated:
        payload = payload or {}
        try:
            given = parse_device(payload)
        except InvalidInput as invalid:
            raise ConnectionRefusedByAuth(INVALID_MESSAGE.because(invalid.message)) from invalid
        header, user = payload.get("Authorization", payload.get("authorization")), parse_act_as_payload(payload)
        try:
            if header is not None and not isinstance(header, str):
                raise Unauthenticated("Authorization should be a string: Bearer <token>.")
            token = bearer_token(header)
            if token is None:
                if user is not None:
                    raise Unauthenticated(f"{ACT_AS_KEY} needs a token in Authorization.")
                check_caller(None)
                return Authenticated(None)
            if load_shedding.is_full:
                raise _refuse(load_shedding)
            # Outside the count: the client is not known yet, and a key may have to be fetched first.
            caller = await admit(token, user)
            if not load_shedding.enter():
                raise _refuse(load_shedding)
            try:
                count_connection(caller)
                await sign_in(caller)
                # A revocation during sign_in has closed only the connections that existed by then.
                caller = await admit(token, user)
            finally:
                load_shedding.leave()
        except RequestRefused as refusal:
            raise ConnectionRefusedByAuth(NEEDS_TOKEN) from refusal
        except (Unauthenticated, Forbidden, Banned) as refusal:
            raise ConnectionRefusedByAuth(FORBIDDEN.because(refusal.message)) from refusal
        except InvalidInput as invalid:
            raise ConnectionRefusedByAuth(INVALID_MESSAGE.because(invalid.message)) from invalid
        except Unavailable as unavailable:
            raise ConnectionRefusedByAuth(TRY_AGAIN_LATER) from unavailable
        except RateLimited as limited:
            reason = f"Try again later: too many connections were opened; retry in {limited.retry_after_ms} ms"
            raise ConnectionRefusedByAuth(TRY_AGAIN_LATER.because(reason)) from limited
        return Authenticated(
            caller, caller.expires_at, caller.user_id, caller.acted_by, connect_as(caller.user_id, given)
        )

    async def admit(token: str, user: str | None) -> Caller:
        caller = act_as(await authenticate(token), user, ACT_AS_KEY)
        if caller.acted_by is not None:
            check_acting(caller)
        return caller

    def connect_as(user: UserId, given: GivenDevice) -> Callable[[Callable[[Close], None]], DeviceConnection] | None:
        if connect_device is None:
            return None
        return lambda end: connect_device(user, given, lambda: end(DEVICE_REMOVED))

    return authenticate_payload


def _refuse(load_shedding: LoadShedding) -> ConnectionRefusedByAuth:
    load_shedding.refused.connections += 1
    return ConnectionRefusedByAuth(OVERLOADED)
