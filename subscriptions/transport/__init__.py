"""GraphQL over WebSocket by the graphql-transport-ws protocol. `websocket.py` puts the parts together."""
