"""The console: a web server with pages and an API for clusters of Ottla and of Apache Kafka. See README.md."""
