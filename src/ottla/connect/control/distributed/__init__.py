"""Distributed workers: membership in a group, and the assignment of connectors and tasks to its members."""
