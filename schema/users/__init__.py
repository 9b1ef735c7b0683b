"""Users at the API: the type, its root fields, and the renewal of a connection's token."""
