"""Watches a cluster from the outside, as its clients see it."""
