"""TLS by Kafka's own settings: key stores, contexts of Python's `ssl`, names of certificates."""
