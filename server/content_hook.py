"""Builds the external hook that the settings name."""

from __future__ import annotations

from resolvers.content_rules.content_hook import ContentHook, HookOptions
from server.settings.content_hook import ContentHookSettings
from store.base.ids import UserId


def build_content_hook(settings: ContentHookSettings) -> ContentHook | None:
    """Return the hook, which has no connections yet; None if it is not set up."""
    url, secret = settings.content_hook_url, settings.content_hook_secret
    if url is None or secret is None:
        return None
    reporter = UserId(settings.content_hook_reporter)
    return ContentHook(HookOptions(url, secret.get_secret_value(), settings.content_hook_fails_open, reporter))
