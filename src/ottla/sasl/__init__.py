"""SASL mechanisms: both ends of an exchange, as machines without I/O."""
