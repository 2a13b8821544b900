"""Tasks at work: loops of micro-batches on the worker's Spark session."""
