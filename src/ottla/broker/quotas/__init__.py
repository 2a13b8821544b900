"""Quotas of clients. See README.md."""
