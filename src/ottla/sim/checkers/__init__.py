"""Checkers: rules that must hold in every run. They use the history and the nodes, not workloads or faults."""
