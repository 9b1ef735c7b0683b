"""Authentication: tokens, keys and who may connect."""
