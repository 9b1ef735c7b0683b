"""Overload protection: admission, deadlines and load shedding."""
