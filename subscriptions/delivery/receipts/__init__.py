"""Receipts: notifies senders, and holds back those of INVISIBLE users."""
