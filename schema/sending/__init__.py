"""sendMessage: its input, its payload and the mutation. Apart from `schema.messages`, as its payload holds a session too."""
