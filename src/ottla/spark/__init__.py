"""Apache Spark on Ottla and on any other Kafka: sessions, and the data source `ottla`. See README.md."""
