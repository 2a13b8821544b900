"""Apache Kafka and Ottla in one run, with the same clients, alternating."""

__all__: list[str] = []
