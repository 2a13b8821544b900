"""A job of the soak: one thread that repeats a step until the soak ends, and reports what must not happen."""

from __future__ import annotations

import threading
import traceback
from collections import Counter

__all__ = ["Findings", "Job"]

FINDINGS_MAX = 100


class Findings:
    """Violations that jobs report, and counts of what they have done."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.counts: Counter[str] = Counter()

    def report(self, sentence: str) -> None:
        if len(self.sentences) < FINDINGS_MAX:
            self.sentences.append(sentence)


class Job:
    """Subclasses implement `step`, and `finish` if something has to be checked at the end."""

    # Between two steps.
    pause_s = 0.0

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.counts = findings.counts
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the steps; returns when the last one has ended."""
        self._is_over.set()
        self._thread.join()

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    def wait(self, seconds: float) -> bool:
        """True if the soak ends meanwhile."""
        return self._is_over.wait(seconds)

    def step(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Called by the main thread after `stop`, while all nodes run."""

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self.step()
                self._is_over.wait(self.pause_s)
        except Exception:  # noqa: BLE001 - a thread has nobody to raise to
            self.findings.report(f"{type(self).__name__} ended: {traceback.format_exc(limit=4)}")
