"""`python -m tests.data.make_authorizer_answers`: asks Kafka's authorizer about random ACLs, and keeps its answers.

Run it when the questions change: the file is what Ottla is held against.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support import jars
from tests.support.authorizer_questions import as_lines, worlds
from tests.support.java import PROGRAMS, compiled, java_command

__all__ = ["ANSWERS"]

ANSWERS = Path(__file__).parent / "kafka-4.3-authorizer.txt"


def ask_kafka() -> str:
    """A line for each world: 1 for every question that was answered with "allowed", 0 for the others."""
    classes = compiled([PROGRAMS / "AuthorizerAnswers.java"])
    command = [java_command(), "-Dfile.encoding=UTF-8", "-cp", f"{classes}:{jars.class_path(jars.TOOLS)}"]
    lines = "".join(f"{line}\n" for world in worlds() for line in as_lines(world))
    done = subprocess.run([*command, "AuthorizerAnswers"], input=lines, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    ANSWERS.write_text(ask_kafka())
