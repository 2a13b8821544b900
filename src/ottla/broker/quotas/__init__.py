"""What clients may use: see README.md."""
