"""Jobs that run in the background and survive the death of servers."""
