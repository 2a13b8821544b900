"""Nodes of one software join a cluster, and those of the other one leave it, while clients work.

    join   format the directories for the cluster, start the node, wait for it, make its controller a voter
    leave  move the replicas of a node to other brokers, remove its vote, stop it, unregister it

Every step can be repeated. A repeated command skips the steps that are done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ottla.balance.execute import Executor
from ottla.balance.goals import default_goals
from ottla.balance.observe import observe, with_brokers
from ottla.balance.planner import Plan, make_plan
from ottla.balance.state import ClusterState
from ottla.balance.steps import Step, make_steps
from ottla.cli.failures import Failure
from ottla.cli.logic.formatting import format_directories
from ottla.cli.logic.migration_steps import NodeChange, follows, is_running, run_command, until
from ottla.cli.logic.node_files import controller_listeners, directories, metadata_directory_id
from ottla.client.admin import AdminClient
from ottla.host.files import OsFiles
from ottla.model.config import BrokerConfig
from ottla.model.ids import TopicPartition

__all__ = ["Joining", "Leaving", "is_formatted"]

# Topics may be created on a node while it is emptied.
_ROUNDS_MAX = 10


def is_formatted(config: BrokerConfig) -> bool:
    return all(OsFiles().exists(f"{directory}/meta.properties") for directory in directories(config))


class Joining:
    """The steps by which a node joins. `say` prints a line about each step."""

    def __init__(
        self, admin: AdminClient, config: BrokerConfig, timeout_seconds: float, say: Callable[[str], None]
    ) -> None:
        self._admin = admin
        self._config = config
        self._say = say
        self._node = NodeChange(admin, config, timeout_seconds, say)

    async def format(self) -> None:
        if is_formatted(self._config):
            return
        format_directories(
            self._config,
            (await self._admin.cluster.describe()).cluster_id,
            no_initial_controllers="controller" in self._config.process_roles,
        )
        self._say(f"The directories of node {self._config.node_id} are formatted for the cluster.")

    async def start(self, command: str) -> None:
        node_id = self._config.node_id
        if is_running(self._config):
            self._say(f"Node {node_id} runs already.")
        else:
            await self._node.start(command)
        missing = ""

        async def is_there() -> bool:
            nonlocal missing
            missing = await self._node.missing()
            return not missing

        if not await self._node.until(is_there):
            raise Failure(
                f"Node {node_id} is not there within {self._node.timeout_seconds:.0f} s: {missing}. Look at its log; "
                "this command continues if it is run again."
            )
        self._say(f"Node {node_id} is in the cluster.")

    async def vote(self) -> None:
        """Adds the controller of the node to the voters, if the node is a controller."""
        node_id = self._config.node_id
        if "controller" not in self._config.process_roles:
            return
        directory_id = metadata_directory_id(OsFiles(), self._config)

        async def votes() -> bool:
            quorum = await self._admin.cluster.quorum()
            if any(voter.node_id == node_id for voter in quorum.voters):
                return follows(quorum, node_id)
            await self._admin.cluster.add_controller(node_id, directory_id, controller_listeners(self._config))
            return False

        if not await self._node.until(votes):
            raise Failure(f"Controller {node_id} does not vote within {self._node.timeout_seconds:.0f} s.")
        self._say(f"Controller {node_id} votes.")


@dataclass(slots=True)
class Leaving:
    """The steps by which a node leaves. `say` prints a line about each step."""

    admin: AdminClient
    node_id: int
    timeout_seconds: float
    throttle: int | None
    say: Callable[[str], None]

    async def plan(self) -> tuple[list[TopicPartition], Plan, Sequence[Step]]:
        """The partitions of the node, and the plan and steps that move them. Raises Failure if they cannot move."""
        state = await observe(self.admin)
        held = _held(state, self.node_id)
        if not held:
            return [], Plan(movements=(), goals=(), stranded=()), []
        if self.node_id not in state.brokers or not state.brokers[self.node_id].is_alive:
            raise Failure(
                f"Broker {self.node_id} does not run, and has replicas of {len(held)} partitions: start it, and run "
                f"this command again. If it is lost, `ottla balance run --dead {self.node_id}` makes them again."
            )
        # Only the hard goals apply, so that no replica moves without need.
        hard = [goal for goal in default_goals() if goal.is_hard]
        plan = make_plan(with_brokers(state, drained=[self.node_id]), hard)
        if plan.stranded:
            raise Failure(
                f"{len(plan.stranded)} replicas have no place on another broker, such as one of {plan.stranded[0]}: "
                "let another broker join first."
            )
        return held, plan, make_steps(state, plan.movements).steps

    async def drain(self) -> None:
        """Moves all replicas to other brokers, including replicas of topics that are created meanwhile."""
        for _ in range(_ROUNDS_MAX):
            held, _, steps = await self.plan()
            if not held:
                self.say(f"Broker {self.node_id} has no replicas.")
                return
            if not steps:
                raise Failure(f"There is no room for {held[0]} on another broker.")
            await Executor(self.admin, throttle=self.throttle, guard=None, on_step=self._tell(len(steps))).run(steps)
        raise Failure(f"Topics are created on broker {self.node_id} again and again; repeat the command.")

    def _tell(self, total: int) -> Callable[[int, Step, int], None]:
        def on_step(number: int, step: Step, moving: int) -> None:
            if not moving:
                self.say(f"Step {number + 1} of {total}: {len(step.movements)} partitions have moved.")

        return on_step

    async def end_vote(self) -> None:
        own = [voter for voter in (await self.admin.cluster.quorum()).voters if voter.node_id == self.node_id]
        if not own:
            return
        for voter in own:
            await self.admin.cluster.remove_controller(voter.node_id, voter.directory_id)

        async def has_no_vote() -> bool:
            return all(voter.node_id != self.node_id for voter in (await self.admin.cluster.quorum()).voters)

        await self._wait(has_no_vote, f"Controller {self.node_id} still votes")
        self.say(f"Controller {self.node_id} does not vote.")

    async def stop(self, command: str) -> None:
        nodes = (await self.admin.cluster.describe(fenced=True)).brokers
        if any(node.node_id == self.node_id and node.is_fenced for node in nodes):
            self.say(f"Node {self.node_id} is stopped already.")
            return
        await run_command(command)

        async def is_gone() -> bool:
            return all(broker.node_id != self.node_id for broker in (await self.admin.cluster.describe()).brokers)

        await self._wait(is_gone, f"Broker {self.node_id} still runs")
        self.say(f"Node {self.node_id} has stopped.")

    async def forget(self) -> None:
        nodes = (await self.admin.cluster.describe(fenced=True)).brokers
        if any(node.node_id == self.node_id for node in nodes):
            await self.admin.cluster.unregister(self.node_id)

    async def _wait(self, condition: Callable[[], Awaitable[bool]], problem: str) -> None:
        if not await until(condition, self.timeout_seconds):
            raise Failure(f"{problem} after {self.timeout_seconds:.0f} s; look at its log, and repeat the command.")


def _held(state: ClusterState, node_id: int) -> list[TopicPartition]:
    return sorted(place for place, partition in state.partitions.items() if node_id in partition.replicas)
