"""Configurations of workers and connectors: their keys, their validation, and the secrets that they refer to."""
