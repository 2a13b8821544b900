"""Workers that copy the batches of partitions."""
