"""The sections of an export, in the order in which they are written. A further kind of data is one line here."""

from __future__ import annotations

from resolvers.export.account_sections import (
    list_devices,
    list_notification_settings,
    list_presence,
    list_profile,
)
from resolvers.export.conversation_sections import list_conversations, list_messages, list_reactions
from resolvers.export.moderation_sections import list_blocked_users, list_reports
from resolvers.export.section import ExportSection
from resolvers.export.workspace_sections import list_invitations, list_webhooks, list_workspaces

SECTIONS = (
    ExportSection("profile", "Your profile.", list_profile),
    ExportSection("devices", "Your devices, without the keys of pushes.", list_devices),
    ExportSection("notification_settings", "Your notification settings.", list_notification_settings),
    ExportSection("presence", "The presence and the custom status that you set.", list_presence),
    ExportSection("blocked_users", "Users that you have blocked.", list_blocked_users),
    ExportSection("reports", "Reports that you made, without the texts of others.", list_reports),
    ExportSection("workspaces", "Workspaces that you are a member of, with your roles and settings.", list_workspaces),
    ExportSection("webhooks", "Webhooks that you created, without their secrets.", list_webhooks),
    ExportSection("invitations", "Invitations that you created, without their codes.", list_invitations),
    ExportSection("conversations", "Conversations that you are or were in, with your settings.", list_conversations),
    ExportSection("messages", "Messages that you wrote. Recalled ones have their text.", list_messages),
    ExportSection("reactions", "Reactions that you gave.", list_reactions),
)
