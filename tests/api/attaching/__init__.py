"""Messages with files."""
