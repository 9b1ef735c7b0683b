"""Tests of requests to addresses that users name."""
