"""Changes of reactions, and what follows from them."""
