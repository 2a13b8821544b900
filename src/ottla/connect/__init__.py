"""Data in and out of topics by configuration alone: connectors, workers, and Kafka Connect's REST interface."""
