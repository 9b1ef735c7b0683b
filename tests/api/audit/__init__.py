"""Tests of the audit log."""
