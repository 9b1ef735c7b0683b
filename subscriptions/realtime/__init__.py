"""Live events: event kinds, the hub, the bus between servers and replay."""
