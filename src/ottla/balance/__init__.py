"""Balances a cluster: a planner with goals in an order, and an executor that moves replicas in throttled steps."""
