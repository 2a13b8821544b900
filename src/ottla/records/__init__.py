"""Record batches: header, building, iteration, old formats, compression, checksums, validation by the leader."""
