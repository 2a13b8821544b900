"""Lake tables."""
