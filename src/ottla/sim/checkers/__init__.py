"""Checkers: rules that must hold in every run. They know the history and the nodes, not workloads or faults."""
