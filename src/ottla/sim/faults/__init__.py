"""Faults and their schedules. They know neither workloads nor checkers."""
