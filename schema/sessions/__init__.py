"""Sessions at the API: the type, lists and synchronisation, and the mutations that change a session."""
