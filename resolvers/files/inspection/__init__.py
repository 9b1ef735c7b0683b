"""Inspection of files: types from bytes, images without metadata, thumbnails, virus scans (ADR 77)."""
