"""Files over HTTP: uploads, and addresses at which they are read (ADR 75, 76)."""
