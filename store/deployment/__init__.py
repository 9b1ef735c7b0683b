"""State of the whole deployment: its name, worker numbers, and which contents of Redis are valid."""
