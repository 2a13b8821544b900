"""Log compaction: keeps the newest value of every key, in the background and beside the appends."""
