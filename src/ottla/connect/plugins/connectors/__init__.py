"""Connectors that come with Ottla. Each says in `claim` what it promises."""
