"""`confab import-chat`: replays a chat log through the API."""
