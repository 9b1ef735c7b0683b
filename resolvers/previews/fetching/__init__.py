"""Fetches pages and pictures that users name, from public addresses only (ADR 78)."""
