"""The metadata log `__cluster_metadata-0` and who may write to it; it knows no topics."""
