"""The cost of searching messages, measured on chat logs and on text that the program makes."""
