"""The registry without I/O: records replayed into a state, and decisions that return records."""
