"""Operators: processors and their plans. See README.md."""
