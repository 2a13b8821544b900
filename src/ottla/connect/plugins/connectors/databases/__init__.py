"""Connectors to databases."""
