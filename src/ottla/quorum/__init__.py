"""The metadata log `__cluster_metadata-0` and the quorum that writes it. This package does not depend on topics."""
