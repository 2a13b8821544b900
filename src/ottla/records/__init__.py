"""Record batches: header view, build, iterate, old formats, compression, checksums, the leader's checks."""
