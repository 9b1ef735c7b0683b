"""Judges edits in channels under the content rules of the workspace."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.content_rules.rejections import rejected
from store.base.ids import without_thread
from store.channels.channel_rights import ChannelRights
from store.content_rules.content_flag import ContentFlag
from store.content_rules.content_rule import ContentAction
from store.messages.message import Message


async def judge_edit(app: Confab, edited: Message, rights: ChannelRights) -> ContentFlag | None:
    """Return the flag that an edit is stored with; None: none. Raises Rejected.

    edited: the message with its new text, and the flag of the external hook if it has one. Its embeds are not judged:
    no edit changes them. rights: of the sender, under the policy whose rules are used.
    """
    policy = rights.policy
    texts = [edited.text] if edited.text else []
    rule = await app.store.content_rules.judge(policy, rights.facts, without_thread(edited.conversation), texts)
    if rule is not None and rule.action is not ContentAction.FLAG:
        raise rejected(with_timeout=rule.action is ContentAction.TIMEOUT and edited.sender != policy.owner)
    if rule is not None:
        return ContentFlag(policy.owner, rule.id, app.store.ids.next())
    return edited.flag._replace(reporter=policy.owner) if edited.flag is not None else None
