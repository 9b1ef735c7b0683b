"""Uploads, files in messages, and their addresses (ADR 75)."""
