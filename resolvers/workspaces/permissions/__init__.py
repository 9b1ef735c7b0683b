"""Roles, overwrites, and why a member has a permission."""
