"""Live events: the hub, the bus between servers, resume, delivery queues and the WebSocket protocol."""
