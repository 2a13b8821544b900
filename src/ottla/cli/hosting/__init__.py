"""A machine with many cores as one thing to operate: a node for each core. See README.md."""
