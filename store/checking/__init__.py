"""Checks of derived data against the records that they follow from (ADR 74)."""
