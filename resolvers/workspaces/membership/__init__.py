"""Use cases on members of workspaces: joining and leaving, invitations, nicknames, lists."""
