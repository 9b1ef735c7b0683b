"""Repositories over MongoDB and Redis. Driver calls are made here and in `subscriptions` only."""
