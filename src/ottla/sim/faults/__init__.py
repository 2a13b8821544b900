"""Faults and their schedules. They are independent of workloads and checkers."""
