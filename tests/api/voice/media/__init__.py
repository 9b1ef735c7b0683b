"""Tests of voice channels with a media server."""
