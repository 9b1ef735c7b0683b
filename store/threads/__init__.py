"""Threads: opening them, placing replies, their recipients and followers."""
