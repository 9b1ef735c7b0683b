"""Exports of everything that a user wrote, uploaded and set (ADR 93)."""
