"""Changes the software of a node: wait for health, stop it, check that its files are free, start it, wait for it.

Every step can be repeated. An interrupted change continues in the current state of the node: a node that is already
stopped is not stopped again.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ottla.cli.failures import Failure
from ottla.cli.logic.doctor_checks import examine
from ottla.cli.logic.doctor_facts import gather
from ottla.cli.logic.doctor_finding import Finding
from ottla.cli.logic.migration_checks import check_health
from ottla.client.admin import AdminClient
from ottla.client.admin.nodes import Quorum
from ottla.client.errors import ClientError
from ottla.host.files import OsFiles
from ottla.model.config import BrokerConfig
from ottla.model.errors import KafkaError
from ottla.model.ports import DirectoryLocked
from ottla.storage.names import LOCK_FILE

__all__ = ["NodeChange", "follows", "is_running", "run_command", "until"]

_PAUSE_SECONDS = 0.2
_GROUP_SAMPLE_SECONDS = 0.0
# A voter that has fetched within this time and has nearly caught up is a member of the quorum again.
_FETCHED_MS = 5_000
_VOTER_LAG_MAX = 100


def is_running(config: BrokerConfig) -> bool:
    """Whether a node uses the directories: Kafka and Ottla lock the same file.

    A node that is only a controller locks only the metadata directory. Raises Failure.
    """
    for directory in sorted({*config.log_dirs, config.metadata_log_dir}):
        path = f"{directory}/{LOCK_FILE}"
        try:
            # Creating the lock file here could give it an owner other than the user of the node.
            if OsFiles().exists(path):
                OsFiles().lock(path).release()
        except DirectoryLocked:
            return True
        except OSError as error:
            raise Failure(f"{path} cannot be opened ({error.strerror}): run this command as the node's user.") from None
    return False


@dataclass(slots=True)
class NodeChange:
    """The change of one node. `say` prints a line about each step."""

    admin: AdminClient
    config: BrokerConfig
    timeout_seconds: float
    say: Callable[[str], None]

    async def wait_for_health(self) -> None:
        """Raises Failure with the findings if the cluster is not well within the time-out."""
        findings: list[Finding] = []

        async def is_well() -> bool:
            nonlocal findings
            facts = await gather(self.admin, seconds=_GROUP_SAMPLE_SECONDS)
            findings = check_health(examine(facts), facts, node_id=self.config.node_id, now_ms=time.time() * 1000)
            return not findings

        if not await self.until(is_well):
            lines = "".join(f"\n  {finding.what} {finding.fix}." for finding in findings)
            raise Failure(f"The cluster is not well, so node {self.config.node_id} is left alone:{lines}")
        self.say("The cluster is well.")

    async def stop(self, command: str) -> float:
        """Stops the node. Returns the time of the stop by the monotonic clock."""
        began = time.monotonic()
        if not is_running(self.config):
            self.say(f"Node {self.config.node_id} is stopped already.")
            return began
        await run_command(command)

        async def is_stopped() -> bool:
            # Kafka releases its directories before it closes its last listener.
            return not is_running(self.config) and not await self._listens()

        if not await self.until(is_stopped):
            raise Failure(
                f"Node {self.config.node_id} still uses its directories {self.timeout_seconds:.0f} s after "
                f"`{command}`. Nothing was changed; stop it, and run this command again."
            )
        self.say(f"Node {self.config.node_id} has stopped.")
        return began

    async def start(self, command: str) -> None:
        await run_command(command)

        async def is_started() -> bool:
            return is_running(self.config)

        if not await self.until(is_started):
            raise Failure(
                f"Node {self.config.node_id} does not run {self.timeout_seconds:.0f} s after `{command}`: look at its "
                "log. Its data is as it was; it can also be started with the former software."
            )
        self.say(f"Node {self.config.node_id} has started.")

    async def wait_until_back(self) -> None:
        """Waits until the node serves clients, its replicas are in sync, and its controller follows the quorum."""
        missing = ""

        async def is_back() -> bool:
            nonlocal missing
            missing = await self.missing()
            return not missing

        if not await self.until(is_back):
            raise Failure(
                f"Node {self.config.node_id} is not back within {self.timeout_seconds:.0f} s: {missing}. Look at its "
                "log; this command continues to wait if it is run again, and --to the former software leads back."
            )
        self.say(f"Node {self.config.node_id} is back: it leads and follows as before.")

    async def _listens(self) -> bool:
        """Whether one of the node's addresses still accepts connections."""
        for listener in self.config.endpoints:
            try:
                _, writer = await asyncio.open_connection(listener.host or "127.0.0.1", listener.port)
            except OSError:
                continue
            writer.close()
            return True
        return False

    async def missing(self) -> str:
        """The first condition that the node does not fulfil yet, as a sentence; empty if the node works."""
        node_id, roles = self.config.node_id, self.config.process_roles
        if "controller" in roles:
            quorum = await self.admin.cluster.quorum()
            if not follows(quorum, node_id):
                return "its controller has not caught up with the quorum"
        if "broker" not in roles:
            return ""
        nodes = (await self.admin.cluster.describe(fenced=True)).brokers
        if not any(node.node_id == node_id and not node.is_fenced for node in nodes):
            return "it is not registered, or fenced"
        facts = await gather(self.admin, seconds=_GROUP_SAMPLE_SECONDS)
        behind = sum(
            node_id in partition.replicas and node_id not in partition.isr
            for topic in facts.topics
            for partition in topic.partitions
        )
        return f"{behind} of its replicas are not in sync" if behind else ""

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> bool:
        return await until(condition, self.timeout_seconds)


async def until(condition: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Waits for the condition; False after the time-out. Errors are retried: a node that starts may not answer yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if await condition():
                return True
        except (KafkaError, ClientError) as error:
            if time.monotonic() >= deadline:
                raise Failure(f"The cluster does not answer: {error}") from error
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_PAUSE_SECONDS)


def follows(quorum: Quorum, node_id: int) -> bool:
    if quorum.leader_id == node_id:
        return True
    end = max((voter.log_end_offset for voter in quorum.voters), default=0)
    now_ms = time.time() * 1000
    for replica in (*quorum.voters, *quorum.observers):
        if replica.node_id == node_id:
            is_recent = now_ms - replica.last_fetch_timestamp < _FETCHED_MS
            return is_recent and end - replica.log_end_offset <= _VOTER_LAG_MAX
    return False


async def run_command(command: str) -> None:
    """Runs a command of the operator in a shell. It may leave the node running in the background."""
    # asyncio is not used, because a background node would inherit our output pipe and keep its reader waiting.
    done = await asyncio.to_thread(subprocess.run, command, shell=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise Failure(f"`{command}` ended with the code {done.returncode}.")
