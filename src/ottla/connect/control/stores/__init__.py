"""Where a Connect cluster keeps configurations, offsets and states: three compacted topics, or memory and a file."""
