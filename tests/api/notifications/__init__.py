"""Notification settings at the API."""
