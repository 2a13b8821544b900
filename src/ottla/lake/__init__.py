"""Lake tables: topics as Iceberg and Delta tables, kept current by Spark, exactly once. See README.md."""
