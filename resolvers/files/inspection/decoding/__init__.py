"""The program that decodes untrusted bytes in a process of its own. It imports nothing else of Confab."""
