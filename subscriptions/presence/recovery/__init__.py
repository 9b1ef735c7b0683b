"""What servers do when Redis has lost presence records."""
