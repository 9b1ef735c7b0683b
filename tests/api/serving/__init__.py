"""Tests of reading files over HTTP."""
