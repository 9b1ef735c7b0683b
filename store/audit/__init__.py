"""The audit log: changes, with the users who made them and those they acted for."""
