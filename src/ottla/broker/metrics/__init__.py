"""Metrics: one table of all metrics and how to read them, and the text format of Prometheus. See README.md."""
