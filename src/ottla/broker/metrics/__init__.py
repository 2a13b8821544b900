"""Metrics: one table of what is told, how each is read, and the text that Prometheus takes. See README.md."""
