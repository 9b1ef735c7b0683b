"""Erasure of a user: the inventory of ids, and the steps that replace or remove them (ADR 94)."""
