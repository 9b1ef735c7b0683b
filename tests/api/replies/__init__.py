"""Delivery of replies: recipients, budgets, dead servers, lost caches."""
