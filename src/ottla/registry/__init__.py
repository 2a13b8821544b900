"""A Schema Registry with the REST interface, records and rules of Confluent's."""
