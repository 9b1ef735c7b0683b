"""Moderation of people: kicks, time-outs, and bans from workspaces and from the deployment (ADR 96)."""
