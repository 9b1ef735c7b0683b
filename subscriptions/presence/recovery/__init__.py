"""Recovery of presence records that Redis has lost."""
