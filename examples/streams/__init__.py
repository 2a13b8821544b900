"""Streams applications: small topologies that run, with tests."""

__all__: list[str] = []
