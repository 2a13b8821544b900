"""The registry as a process: the topic, the election of the writer, HTTP."""
