"""HTTP endpoints of voice channels."""
