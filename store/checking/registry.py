"""All checks, in the order in which they run: stored data before what is cached of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from store.checking.cached.heads import CachedHeads, CachedMembers
from store.checking.cached.sessions import CachedSessions
from store.checking.check import Check
from store.checking.conversations.follow_marks import FollowMarks
from store.checking.conversations.heads import Heads
from store.checking.conversations.member_counts import MemberCounts
from store.checking.conversations.message_numbers import MessageNumbers
from store.checking.conversations.pin_lists import PinLists
from store.checking.conversations.reaction_summaries import ReactionSummaries
from store.checking.conversations.thread_counts import ThreadCounts, ThreadFollowMarks
from store.checking.files.file_checks import FileBlobs, FileMessages, MessageAttachments, StrayBlobs
from store.checking.workspaces.role_counts import RoleCounts
from store.checking.workspaces.user_workspaces import MemberRows, UserWorkspaceRows
from store.checking.workspaces.workspace_counts import WorkspaceCounts
from store.store import Store

CHECKS: Mapping[str, Callable[[Store], Check]] = {
    Heads.name: Heads,
    MessageNumbers.name: MessageNumbers,
    ReactionSummaries.name: ReactionSummaries,
    PinLists.name: PinLists,
    ThreadCounts.name: ThreadCounts,
    ThreadFollowMarks.name: ThreadFollowMarks,
    MemberCounts.name: MemberCounts,
    FollowMarks.name: FollowMarks,
    WorkspaceCounts.name: WorkspaceCounts,
    RoleCounts.name: RoleCounts,
    MemberRows.name: MemberRows,
    UserWorkspaceRows.name: UserWorkspaceRows,
    MessageAttachments.name: MessageAttachments,
    FileMessages.name: FileMessages,
    FileBlobs.name: FileBlobs,
    StrayBlobs.name: StrayBlobs,
    CachedHeads.name: CachedHeads,
    CachedMembers.name: CachedMembers,
    CachedSessions.name: CachedSessions,
}
"""The checks by their names on the command line."""
