"""The mutation sendMessage.

It is not in `schema.messages`, because its payload has a session, and sessions have messages.
"""
