"""Tests of addresses of files, and of what they answer."""
