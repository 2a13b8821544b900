"""Workers that share their work: membership in a group, and the division of connectors and tasks among its members."""
