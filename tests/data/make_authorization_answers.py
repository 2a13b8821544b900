"""`python -m tests.data.make_authorization_answers`: asks Apache Kafka under many sets of ACLs, and keeps its answers.

Run it when the scenario changes, and review the difference: the file is what Ottla is held against.
"""

from __future__ import annotations

import json
import lzma
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import jars
from tests.support.authorization_scenario import LISTENERS, SETTINGS, Places, play
from tests.support.brokers import QuickKafka, free_ports
from tests.support.java import PROGRAMS, compiled

__all__ = ["ANSWERS", "read_answers"]

ANSWERS = Path(__file__).parent / "kafka-4.3-authorization.json.xz"
# The features that Ottla does not have.
FEATURES = ("share.version=0", "streams.version=0")


def read_answers() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(lzma.decompress(ANSWERS.read_bytes()))
    return answers


class _Kafka(QuickKafka):
    def _java(self, *options: str) -> list[str]:
        *command, class_path = super()._java(*options)
        return [*command, f"{compiled([PROGRAMS / 'ListenerPrincipals.java'])}:{class_path}"]


@contextmanager
def running_kafka(directory: Path) -> Iterator[Places]:
    places = Places(*(f"127.0.0.1:{port}" for port in free_ports(len(LISTENERS))))
    settings = {
        **SETTINGS,
        "listeners": places.listeners,
        "controller.quorum.voters": f"1@{places.controller}",
        "principal.builder.class": "ListenerPrincipals",
    }
    with _Kafka(directory, settings, features=FEATURES, heap="500m"):
        yield places


if __name__ == "__main__":
    jars.fetch(jars.TOOLS)
    with tempfile.TemporaryDirectory() as directory, running_kafka(Path(directory)) as places:
        text = json.dumps(play(places), indent=1, sort_keys=True)
    ANSWERS.write_bytes(lzma.compress(text.encode()))
    print(f"{len(text)} characters in {ANSWERS.stat().st_size} bytes")
