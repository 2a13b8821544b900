"""Runs that must end well: seeds that have found something once, and a few that nobody has looked at.

`make sim SEEDS=1000` runs many more.
"""

from __future__ import annotations

from tests.sim.commands import run_simulator

# What each of them found when it was first run. A change of the simulator may turn it into another run.
FOUND_ONCE = {
    11: "a join that had failed with its write was answered a second time",
    14: "a node whose disk was full went on with a vote that it had not written",
    30: "an fsync that failed at the very end kept a node from stopping",
    46: "a shard that was given up planned a timer",
    73: "a DeleteTopics request that failed had an empty answer",
    91: "a power loss took the first segment of the metadata log, because its name was never synced",
}


def test_what_was_found_once_stays_mended() -> None:
    output = run_simulator("--only", ",".join(map(str, FOUND_ONCE)), "--keep-going")
    assert "0 failed" in output.splitlines()[-1], output


def test_nothing_is_found() -> None:
    output = run_simulator("--from", "1000", "--seeds", "10", "--seconds", "10", "--keep-going")
    assert "0 failed" in output.splitlines()[-1], output
    assert "batch acknowledged" in output
