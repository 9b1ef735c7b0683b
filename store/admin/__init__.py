"""Reads of one user, one conversation or the whole deployment, for operators. Nothing here changes anything."""
