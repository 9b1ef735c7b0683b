"""Identifiers, time, errors and counters that every repository uses."""
