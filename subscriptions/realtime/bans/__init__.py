"""Bans from the deployment, as servers keep them in memory."""
