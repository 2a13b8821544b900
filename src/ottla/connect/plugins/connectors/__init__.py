"""The built-in connectors. `claim` is the delivery guarantee of each."""
