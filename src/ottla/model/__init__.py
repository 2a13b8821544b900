"""Ids, error codes, limits, configuration keys, and the ports to the world outside."""
