"""Notification settings."""
