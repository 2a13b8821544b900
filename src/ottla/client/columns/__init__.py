"""Columns of records for Arrow, which producer, consumer and Spark share. See README.md."""

from __future__ import annotations

from ottla.client.errors import MissingLibrary

__all__: list[str] = []

try:
    import numpy  # noqa: F401
    import pyarrow  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingLibrary(f"Columns need {error.name}: pip install 'ottla[columns]'.") from error
