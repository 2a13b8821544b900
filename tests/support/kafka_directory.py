"""A data directory written by Apache Kafka 4.3: `tests/data` has the archive and the script that created it."""

from __future__ import annotations

import tarfile
from pathlib import Path

__all__ = ["unpack_kafka_directory"]

ARCHIVE = Path(__file__).parents[1] / "data" / "kafka-directory.tar.xz"


def unpack_kafka_directory(place: Path) -> Path:
    """Unpacks a fresh copy of the directory below `place`."""
    with tarfile.open(ARCHIVE) as archive:
        # Python 3.11 knows filters since its fourth patch release; the archive is our own either way.
        archive.extractall(place, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # type: ignore[arg-type]
    return place / "kafka-directory"
