"""Authentication: tokens, keys, revocation, and the tokens of WebSockets."""
