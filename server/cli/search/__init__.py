"""`confab search`: commands for the index of messages."""
