"""A pipeline from a generator of clicks to partitioned Parquet files. See README.md."""
