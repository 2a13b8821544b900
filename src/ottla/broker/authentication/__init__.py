"""Authentication of the clients of a listener."""
