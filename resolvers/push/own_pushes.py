"""Pushes that users send to their own devices, to see whether they arrive."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import NotFound
from resolvers.base.rate_limits import check_rate
from resolvers.push.push_service import PushMessage, PushOutcome, PushResult
from resolvers.sessions.attention import count_attention
from store.base.ids import UserId
from store.devices.device import is_device_id
from store.devices.device_store import DeviceKey

TEST_TAG = "confab-test"
TITLE = "Test"
BODY = "Push notifications work on this device."


async def send_test_push(app: Confab, user: UserId, id: str) -> PushResult:
    """Send a push to a device of a user, and return its result. An address that is gone is removed.

    Raises NotFound, and RateLimited: users choose the addresses to which this server sends requests.
    """
    device = await app.store.devices.find(DeviceKey(user, id)) if is_device_id(id) else None
    if device is None:
        raise NotFound("there is no such device", field="deviceId")
    if device.push is None:
        reason = "this device has no push address: call registerDevice with its pushPlatform first"
        return PushResult(PushOutcome.NOT_CONFIGURED, reason)
    service = app.push_services.get(device.push.platform)
    if service is None:
        reason = f"this deployment has no credentials for {device.push.platform}"
        return PushResult(PushOutcome.NOT_CONFIGURED, reason)
    check_rate(app.store.rate_limits.invite_lookups, user)
    attention = await count_attention(app, user)
    badge = attention.unread + attention.mentions
    result = await service.send(device.push, PushMessage(None, TEST_TAG, badge, TITLE, BODY))
    if result.outcome is PushOutcome.GONE:
        await app.store.devices.forget_push(device)
    return result
