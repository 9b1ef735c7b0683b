"""Files: their rows, and the stores that hold their bytes (ADR 75)."""
