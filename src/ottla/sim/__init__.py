"""Whole clusters in one thread, on virtual time, networks and disks, replayable from a seed. See README.md."""
