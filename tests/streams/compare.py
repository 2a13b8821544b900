"""Compares our answer to a case with that of Kafka Streams, and finds the smallest case that differs.

`python -m tests.streams.compare CASES [OPERATOR...]` runs this number of cases for each operator.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

from ottla.streams import StreamsError
from tests.streams.cases import run_case
from tests.streams.generate import OPERATORS, make_case
from tests.streams.oracle.java import StreamsOracle

__all__ = ["difference", "normalized", "smallest", "smallest_that"]

Case = dict[str, Any]


def normalized(answer: Case) -> Case:
    """Removes irrelevant differences: names of functions, and what `comparable_records` removes."""
    if "error" in answer:
        return {"error": True}
    internal = {topic: comparable_records(topic, records) for topic, records in answer["internal"].items()}
    description = re.sub(r"extractor class: .*", "extractor", answer["description"])
    return {"description": description, "steps": answer["steps"], "internal": internal}


def comparable_records(topic: str, records: list[list[Any]]) -> list[list[Any]]:
    """Removes the order of keys in a buffer's changelog, and the headers of other changelogs.

    A header tells the format of a buffer. Kafka Streams adds the headers of the input to the changelogs of some other
    stores; no restore reads them.
    """
    if "SUPPRESS" in topic:
        return sorted(records, key=str)
    return [record[:3] for record in records] if topic.endswith("-changelog") else records


def answer_of(case: Case) -> Case:
    try:
        return run_case(case)
    except StreamsError as error:
        return {"error": str(error)}


def difference(oracle: StreamsOracle, case: Case) -> str | None:
    """The first difference; None if the answers are equal."""
    java, python = normalized(oracle.ask(case)), normalized(answer_of(case))
    for part in ("error", "description", "steps", "internal"):
        if java.get(part) != python.get(part):
            return f"{part} differs.\nKafka Streams: {java.get(part)}\nOttla: {python.get(part)}"
    return None


def smallest(oracle: StreamsOracle, case: Case) -> Case:
    """Removes inputs as long as the answers still differ."""
    return smallest_that(lambda shorter: difference(oracle, shorter) is not None, case)


def smallest_that(differs: Callable[[Case], bool], case: Case) -> Case:
    position = 0
    while position < len(case["inputs"]):
        shorter = {**case, "inputs": case["inputs"][:position] + case["inputs"][position + 1 :]}
        if differs(shorter):
            case = shorter
        else:
            position += 1
    return case


def main(arguments: list[str]) -> int:
    count, names = int(arguments[0]), arguments[1:] or list(OPERATORS)
    with StreamsOracle() as oracle:
        for name in names:
            for seed in range(count):
                case = make_case(name, seed)
                if difference(oracle, case) is not None:
                    case = smallest(oracle, case)
                    print(f"{name}, seed {seed}: {difference(oracle, case)}\n{json.dumps(case)}")
                    return 1
            print(f"{name}: {count} cases equal", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
