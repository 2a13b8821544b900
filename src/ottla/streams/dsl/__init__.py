"""The DSL of Kafka Streams in Python. See README.md."""

from ottla.streams.dsl.builder import StreamsBuilder

__all__ = ["StreamsBuilder"]
