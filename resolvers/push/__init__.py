"""Push notifications: who gets one, what it says, and the services that carry it."""
