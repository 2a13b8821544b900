"""Several nodes as child processes of this process.

All nodes start at once: controllers and brokers retry until they reach each other. The cluster is ready when every node
has printed its ready line, which is the only line that a node prints on standard output.

If a node fails before the cluster is ready, all nodes stop. Later the cluster survives the loss of a node: the loss is
reported with the command that restarts the node, and the supervisor ends when the last node has ended.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

from ottla.host.loop import stop_signals

__all__ = ["Supervisor"]

# A node that has not stopped after this time is killed.
STOP_SECONDS_MAX = 60.0


class Supervisor:
    def __init__(self, config_files: Sequence[str], *, on_ready: Callable[[], object]) -> None:
        self._config_files = config_files
        self._on_ready = on_ready
        self._children: list[subprocess.Popen[bytes]] = []
        self._waiting: set[int] = set()
        self._stopping = False

    def run(self) -> int:
        """Runs all nodes until a signal arrives, a node fails to start, or all have ended; returns the exit code."""
        # Signals are written to a socket, so that one `select` waits for signals and nodes.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        stopping = stop_signals()
        for number in (*stopping, signal.SIGCHLD):
            signal.signal(number, _ignore)
        with selectors.DefaultSelector() as selector:
            selector.register(reader, selectors.EVENT_READ, None)
            try:
                for config_file in self._config_files:
                    child = self._start(config_file)
                    selector.register(child.stdout, selectors.EVENT_READ, child)  # type: ignore[arg-type]
                return self._watch(selector, reader, stopping)
            finally:
                self._stop()
                signal.set_wakeup_fd(-1)
                os.close(reader)
                os.close(writer)

    def _start(self, config_file: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ottla.cli.main", "node", "--config", config_file]
        # A separate process group: Ctrl-C reaches only the supervisor, which stops the nodes in order. If the
        # supervisor is killed, the nodes see the end of their standard input and stop.
        environment = {**os.environ, "OTTLA_LIFELINE": "stdin"}
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0, env=environment
        )
        self._children.append(child)
        self._waiting.add(child.pid)
        return child

    def _watch(self, selector: selectors.BaseSelector, reader: int, stopping: Sequence[int]) -> int:
        while True:
            for key, _ in selector.select():
                child: subprocess.Popen[bytes] | None = key.data
                if child is None:
                    if not set(stopping).isdisjoint(os.read(reader, 512)):
                        return 0
                    continue
                assert child.stdout is not None
                line = child.stdout.readline()
                if not line:
                    selector.unregister(child.stdout)
                    code = self._ended(child)
                    if self._waiting or all(child.poll() is not None for child in self._children):
                        return code
                if line.startswith(b"ready") and child.pid in self._waiting:
                    self._waiting.discard(child.pid)
                    if not self._waiting:
                        self._on_ready()

    def _ended(self, child: subprocess.Popen[bytes]) -> int:
        code = child.wait()
        index = self._children.index(child)
        if self._waiting:
            consequence = "so the others stop."
        else:
            consequence = (
                f"the other nodes continue. To start it again: ottla node --config {self._config_files[index]}"
            )
        message = f"ottla: Node {index + 1} has ended with exit code {code}, {consequence}"
        print(message, file=sys.stderr, flush=True)
        return code or 1

    def _stop(self) -> None:
        """Stops in reverse order, controllers last: brokers shut down in an orderly way through the controller."""
        for child in reversed(self._children):
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(STOP_SECONDS_MAX)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()


def _ignore(number: int, frame: object) -> None:
    """Does nothing: the byte on the wake-up socket is the notification."""
