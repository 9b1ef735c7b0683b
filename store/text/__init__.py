"""Text as users search it: folded, in words, and what a query finds in it. Pure functions (ADR 86)."""
