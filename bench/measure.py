"""CPU time and resident memory of a process, from the operating system."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

__all__ = ["Meter", "cpu_ns", "cpu_seconds", "resident_bytes", "touch_memory"]

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and all its threads."""
    return cpu_ns(pid) / 1e9


def cpu_ns(pid: int) -> int:
    """The CPU clock of another process, as `clock_getcpuclockid` names it; /proc knows ticks of 10 ms only."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def machine_cpu_seconds() -> float:
    """The busy time of all processors, for all processes."""
    user, nice, system, _, _, interrupt, soft_interrupt, *_ = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + interrupt + soft_interrupt) / TICKS_PER_SECOND


def touch_memory(directory: Path, size_bytes: int) -> None:
    """Fills and frees this much page cache.

    A virtual machine gets its memory from the host at the first access, which costs up to ten times as much as the
    write itself. Without this, the cost of such a page would be charged to the broker that accesses it first.
    """
    file = directory / f"touched-{os.getpid()}"
    block = bytes(1 << 20)
    with file.open("wb", buffering=0) as stream:
        for _ in range(-(-size_bytes // len(block))):
            stream.write(block)
    file.unlink()


@dataclass(slots=True)
class Meter:
    """Measures a block of work: CPU of the brokers, elapsed time, and the CPU share of other processes."""

    broker_pids: tuple[int, ...]
    client_pids: tuple[int, ...]
    broker_cpu_s: float = 0.0
    wall_s: float = 0.0
    # The share of all processors that went neither to the broker nor to the client.
    others_share: float = 0.0

    def __enter__(self) -> Self:
        self.broker_cpu_s, self.wall_s = -self._broker_cpu_s(), -time.monotonic()
        self.others_share = -machine_cpu_seconds() + self._client_cpu_s()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s += time.monotonic()
        self.broker_cpu_s += self._broker_cpu_s()
        others_cpu_s = self.others_share + machine_cpu_seconds() - self._client_cpu_s() - self.broker_cpu_s
        self.others_share = max(0.0, others_cpu_s) / (self.wall_s * (os.cpu_count() or 1))

    def _broker_cpu_s(self) -> float:
        return sum(cpu_seconds(pid) for pid in self.broker_pids)

    def _client_cpu_s(self) -> float:
        return sum(cpu_seconds(pid) for pid in self.client_pids)
