"""Inspection of files: types, images, scans."""
