"""Migration by mirror: a cluster moves to another one, topic by topic and group by group."""
