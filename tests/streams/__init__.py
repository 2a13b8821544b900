"""Tests of `ottla.streams`."""

__all__: list[str] = []
