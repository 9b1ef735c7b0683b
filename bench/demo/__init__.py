"""Measurements of the demo: scrolling through a long channel, and the start on a phone."""
