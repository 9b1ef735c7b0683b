"""The parts of graphql-transport-ws. `subscriptions.transport_ws` puts them together."""
