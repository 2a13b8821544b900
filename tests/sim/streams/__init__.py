"""Workers of `ottla.streams` in the simulator: exactly once, whatever happens to nodes, network and workers."""
