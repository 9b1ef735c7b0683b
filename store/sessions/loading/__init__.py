"""Loads of users' states: from MongoDB into Redis, with answers in between."""
