"""Benchmarks of uploads and downloads."""
