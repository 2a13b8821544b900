"""Kafka Streams as the judge: a JVM that runs cases through Java's TopologyTestDriver."""

__all__: list[str] = []
