"""Delivery of events on shared clocks: who may see them, their way between servers, and their replay."""
