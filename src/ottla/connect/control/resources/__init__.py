"""The resources of the REST interface, one class for each: connectors, tasks, offsets, topics, plug-ins, loggers."""
