"""Workloads: the actions of simulated clients. They record the answers that they get and do not judge them."""
