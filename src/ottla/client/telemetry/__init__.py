"""Metrics of clients, pushed to brokers that subscribe to them (KIP-714). See README.md."""

__all__: list[str] = []
