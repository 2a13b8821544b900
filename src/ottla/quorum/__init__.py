"""The metadata log `__cluster_metadata-0` and the quorum that writes it; it knows no topics."""
