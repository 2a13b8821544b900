"""Workloads: what simulated clients do. They record the answers that they get and do not judge them."""
