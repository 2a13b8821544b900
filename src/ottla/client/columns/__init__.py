"""Columns of records for Arrow, which producer, consumer and Spark share. See README.md."""
