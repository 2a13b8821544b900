"""Ids, error codes, configuration keys, and the ports to the operating system."""
