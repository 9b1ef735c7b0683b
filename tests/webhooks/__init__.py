"""Tests of outgoing webhooks. Endpoints are real HTTP servers on loopback."""
