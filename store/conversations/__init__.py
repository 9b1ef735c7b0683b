"""Conversations and groups: heads, memberships and changes to them."""
