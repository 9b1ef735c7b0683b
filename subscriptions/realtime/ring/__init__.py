"""The ring of servers: which server is the owner of a key, for state that may end with a server."""
