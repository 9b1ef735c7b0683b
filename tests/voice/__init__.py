"""Tests of voice channels."""
