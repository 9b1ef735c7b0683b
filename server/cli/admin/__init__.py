"""`confab admin`: commands that show operators what is stored, and change nothing."""
