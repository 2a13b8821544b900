"""Decide, then replay: the parts that the controller and every coordinator shard are made of."""

from __future__ import annotations

from ottla.decisions.decision import Answers, Decide, Decision, Question, RecordRun
from ottla.decisions.gate import CommitGate, Pending
from ottla.decisions.timers import Repeater, Timers
from ottla.decisions.turn import Turn

__all__ = [
    "Answers",
    "CommitGate",
    "Decide",
    "Decision",
    "Pending",
    "Question",
    "RecordRun",
    "Repeater",
    "Timers",
    "Turn",
]
