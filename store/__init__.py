"""Repositories over MongoDB and Redis. The only layer, beside `subscriptions`, that speaks to a driver."""
