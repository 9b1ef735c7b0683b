"""`confab import-chat`: imports a chat log into a group."""
