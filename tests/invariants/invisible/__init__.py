"""Users who depart and users who become INVISIBLE, seen by an observer on another server."""
