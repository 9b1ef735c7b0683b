"""Groups at the API: the type, lists, and the mutations that change a group."""
