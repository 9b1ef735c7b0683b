"""Tests of webhooks. Endpoints of outgoing ones are real HTTP servers on loopback."""
