"""Clients of a cluster. See README.md."""
