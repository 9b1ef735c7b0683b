"""Other chat servers for the comparison, if they are installed: `python -m bench --peers`."""
