"""Runs that must pass: plans that have found a defect before, and a few fresh seeds.

`make sim SEEDS=1000` runs many more.
"""

from __future__ import annotations

from pathlib import Path

from tests.sim.commands import run_simulator

PLANS = Path(__file__).parent / "plans"

# The defect that each plan found when it was first run; parts of a run are still random and may differ by now.
FOUND_ONCE = {
    "join-answered-twice": "a join that had failed with its write was answered a second time",
    "vote-on-a-full-disk": "a node whose disk was full went on with a vote that it had not written",
    "fsync-fails-at-the-end": "an fsync that failed at the very end kept a node from stopping",
    "timer-of-a-shard-given-up": "a shard that was given up planned a timer",
    "empty-answer-of-delete-topics": "a DeleteTopics request that failed had an empty answer",
    "metadata-segment-without-a-name": "a power loss took the first metadata segment, whose name was not synced",
    "producer-back-at-an-old-leader": "the answer of a leader that had been replaced was taken for a lost batch",
    "leader-by-an-old-image": "a node led by the image of before its crash, and wrote where its log had lost its end",
    "whole-logs-given-up-on": "whole nodes that were not registered yet gave up as if they had crashed",
    "epoch-without-a-record": "a follower with an epoch in which nothing was written never came in sync again",
    "offset-of-a-coordinator-cut-off": "a coordinator that was replaced told an old offset",
    "epoch-that-found-no-room": "a new leader's records were cut after a crash, for its epoch had met a full disk",
    "assignment-of-a-coordinator-just-loaded": "an assignment was told that the next coordinator did not know",
    "hole-behind-a-rotten-offset": "a batch whose offset had rotted was cut, and the log went on as if it were there",
    "older-epoch-asked-about-for-ever": "a batch of an older epoch was asked about again and again, without a pause",
    "batches-behind-an-expired-one": "a flush of `ottla.client` waited for ever behind a batch that had expired",
    "commit-delivered-again-later": "a commit that a client had repeated came twice, and was taken for a lost offset",
}


def test_what_was_found_once_stays_mended() -> None:
    output = run_simulator("--plan", *(str(PLANS / f"{name}.json") for name in FOUND_ONCE), "--keep-going")
    assert f"{len(FOUND_ONCE)} seeds" in output.splitlines()[-1], output
    assert "0 failed" in output.splitlines()[-1], output


def test_every_plan_that_is_kept_is_run() -> None:
    assert {path.stem for path in PLANS.glob("*.json")} == set(FOUND_ONCE)


def test_nothing_is_found() -> None:
    output = run_simulator("--from", "1000", "--seeds", "4", "--seconds", "10", "--keep-going")
    assert "0 failed" in output.splitlines()[-1], output
    assert "batch acknowledged" in output
