"""Recalls of many messages: by moderators, and of what a banned user wrote (ADR 96)."""
