"""What tests and the benchmark share: jars, Java, and brokers as child processes."""

__all__: list[str] = []
