"""Events that are sent at most once in a while, with the state of that moment."""
