"""Blob stores: GridFS and S3 behind one protocol."""
