"""Tests of incoming webhooks."""
