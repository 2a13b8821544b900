"""Apache Kafka's own integration tests, from its published test jars, against Ottla (or Apache Kafka itself)."""

__all__: list[str] = []
