"""Kafka Connect on Spark: connectors, workers and their REST interface. See README.md."""
