"""Receipts: how far each member has received and read."""
