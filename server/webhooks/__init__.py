"""The endpoint of incoming webhooks."""
