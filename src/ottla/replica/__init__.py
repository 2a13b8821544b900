"""Partition leadership, the high watermark, fetch sessions, and requests that have to wait."""
