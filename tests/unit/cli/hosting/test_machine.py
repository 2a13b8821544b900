"""The supervision of the nodes of a machine, with nodes that are no processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from ottla.cli.hosting import machine, restarts
from ottla.cli.hosting.machine import Machine
from ottla.cli.hosting.node_child import NodeChild, NodeState
from ottla.cli.hosting.plan import HostError, HostPlan, NodePlan

# The limit is for a broken host only.
LIMIT_SECONDS = 10.0
IN_SYNC = """\
kafka_server_replicamanager_underreplicatedpartitions 0
kafka_server_replicamanager_partitioncount 0
kafka_server_replicamanager_offlinereplicacount 0
ottla_replica_out_of_sync_partitions 0
"""


class Child(NodeChild):
    """A node with `bad` in its properties ends before it is ready; with `hangs` it is never ready."""

    # Failures of the next starts of any node.
    start_errors: ClassVar[list[Exception]] = []

    def __init__(self, plan: NodePlan, directory: str) -> None:
        super().__init__(plan, directory)
        self.end = asyncio.Event()
        self.starts = 0

    async def start(self) -> None:
        self.state = NodeState.STARTING
        self.starts += 1
        self.end.clear()
        if self.start_errors:
            raise self.start_errors.pop()

    async def wait_ready(self) -> bool:
        if "hangs" in self.plan.properties:
            await asyncio.Event().wait()
        if "bad" in self.plan.properties:
            self.end.set()
            return False
        self.state, self.metrics_url = NodeState.READY, f"http://{self.node_id}"
        return True

    async def wait_ended(self) -> int:
        await self.end.wait()
        return 1

    async def stop(self) -> None:
        self.end.set()


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "NodeChild", Child)
    monkeypatch.setattr(machine, "_LOOK_SECONDS", 0.0)
    # A node that is not ready when it is asked for counts as a node that never is.
    monkeypatch.setattr(machine, "IN_SYNC_SECONDS_MAX", 0.0)
    monkeypatch.setattr(restarts, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(Child, "start_errors", [])


def plan_of(*nodes: dict[str, str]) -> HostPlan:
    plans = [
        NodePlan(number, {"process.roles": "broker", **properties}, None) for number, properties in enumerate(nodes, 1)
    ]
    return HostPlan(tuple(plans), "127.0.0.1:0")


async def page_in_sync(_: str) -> str:
    return IN_SYNC


def run(
    work: Callable[[Machine], Awaitable[None]],
    plan: HostPlan,
    *,
    read_page: Callable[[str], Awaitable[str]] = page_in_sync,
) -> None:
    async def whole() -> None:
        supervisor = Machine(plan, "", read_page=read_page)
        async with asyncio.timeout(LIMIT_SECONDS):
            await supervisor.start()
            await work(supervisor)
            await supervisor.stop()

    asyncio.run(whole())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def states(supervisor: Machine) -> list[str]:
    return [node.state.value for node in supervisor.nodes]


def test_a_node_that_a_wrong_setting_has_stopped_is_repaired_by_the_right_setting() -> None:
    async def work(supervisor: Machine) -> None:
        with pytest.raises(HostError, match="Node 1 does not start again"):
            await supervisor.restart(plan_of({"bad": ""}, {"bad": ""}))
        await supervisor.restart(plan_of({"good": ""}, {"good": ""}))
        assert [dict(node.plan.properties) for node in supervisor.nodes] == [
            {"process.roles": "broker", "good": ""},
            {"process.roles": "broker", "good": ""},
        ]
        assert states(supervisor) == ["ready", "ready"]

    run(work, plan_of({}, {}))


@pytest.mark.parametrize("error", [OSError("no process"), ValueError("a defect")])
def test_a_node_that_fails_once_in_a_rolling_restart_is_started_again(error: Exception) -> None:
    async def work(supervisor: Machine) -> None:
        Child.start_errors = [error]
        with pytest.raises(HostError, match="Node 1 does not start again"):
            await supervisor.restart()
        await until(lambda: not supervisor.unready)

    run(work, plan_of({}, {}))


def test_a_process_that_a_defect_has_left_ends_before_the_node_starts_again() -> None:
    async def work(supervisor: Machine) -> None:
        node = supervisor.nodes[0]
        assert isinstance(node, Child)
        stops: list[int] = []

        async def stop() -> None:
            stops.append(node.starts)

        async def fail() -> int:
            node.wait_ended = wait_ended  # type: ignore[method-assign]
            raise ValueError("a defect")

        wait_ended = node.wait_ended
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node, "stop", stop)
            node.wait_ended = fail  # type: ignore[method-assign]
            node.end.set()
            await until(lambda: node.starts == 3 and not supervisor.unready)
        assert stops == [2]

    run(work, plan_of({}))


def test_a_long_line_of_a_node_is_skipped() -> None:
    async def wait() -> tuple[bool, str]:
        node = NodeChild(NodePlan(1, {}, None), "")
        output = asyncio.StreamReader()
        output.feed_data(b"x" * 200_000 + b"\nready 127.0.0.1:9092\n")
        output.feed_eof()
        node._process = cast(Any, SimpleNamespace(stdout=output))
        return await node.wait_ready(), node.addresses

    assert asyncio.run(wait()) == (True, "127.0.0.1:9092")


def test_a_node_that_could_not_be_added_is_gone_and_can_be_added_again() -> None:
    async def work(supervisor: Machine) -> None:
        for wrong in ({"bad": ""}, {"hangs": ""}):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(machine, "READY_SECONDS_MAX", 0.01)
                with pytest.raises(HostError, match="Node 2 did not start"):
                    await supervisor.scale(plan_of({}, wrong))
            assert (states(supervisor), supervisor.unready) == (["ready"], [])
        await supervisor.scale(plan_of({}, {}))
        assert states(supervisor) == ["ready", "ready"]

    run(work, plan_of({}))


def test_a_node_is_started_again_after_a_start_for_which_the_system_had_no_room() -> None:
    async def work(supervisor: Machine) -> None:
        (node,) = supervisor.nodes
        assert isinstance(node, Child)
        Child.start_errors = [OSError("no space"), OSError("no space")]
        node.end.set()
        await until(lambda: node.starts == 4)
        await until(lambda: not supervisor.unready)

    run(work, plan_of({}))


def test_the_host_does_not_wait_for_the_nodes_that_wait_for_a_failed_controller() -> None:
    async def unused(_: Machine) -> None:
        raise AssertionError("the host has started")

    with pytest.raises(HostError, match="Node 1 did not start"):
        run(unused, plan_of({"bad": ""}, {"hangs": ""}))


def test_a_node_that_is_late_in_a_restart_is_ready_later() -> None:
    late = asyncio.Event()

    async def work(supervisor: Machine) -> None:
        (node,) = supervisor.nodes
        assert isinstance(node, Child)
        become_ready = node.wait_ready

        async def wait_ready() -> bool:
            await late.wait()
            return await become_ready()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node, "wait_ready", wait_ready)
            patch.setattr(machine, "READY_SECONDS_MAX", 0.01)
            with pytest.raises(HostError, match="Node 1 does not start again"):
                await supervisor.restart()
        late.set()
        await until(lambda: not supervisor.unready)
        assert node.starts == 2

    run(work, plan_of({}))


def test_a_stop_does_not_wait_for_a_rolling_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "IN_SYNC_SECONDS_MAX", 600.0)
    looked = asyncio.Event()

    async def page(_: str) -> str:
        looked.set()
        return IN_SYNC.replace("underreplicatedpartitions 0", "underreplicatedpartitions 1")

    async def work(supervisor: Machine) -> None:
        changes = [asyncio.create_task(supervisor.restart()), asyncio.create_task(supervisor.restart())]
        await looked.wait()
        await supervisor.stop()
        await asyncio.wait(changes)
        assert [change.cancelled() for change in changes] == [True, True]
        assert states(supervisor) == ["stopped", "stopped"]

    run(work, plan_of({}, {}), read_page=page)


def test_a_restart_waits_for_followers_whose_leaders_are_on_other_machines() -> None:
    pages: list[str] = []

    async def page(_: str) -> str:
        pages.append(IN_SYNC)
        # The leaders of this machine miss nothing, and the replicas that node 1 follows are not in sync again.
        return IN_SYNC.replace("sync_partitions 0", "sync_partitions 4") if len(pages) > 2 else IN_SYNC

    async def work(supervisor: Machine) -> None:
        with pytest.raises(HostError, match="nothing more was restarted"):
            await supervisor.restart()
        assert [node.starts for node in supervisor.nodes if isinstance(node, Child)] == [2, 1]

    run(work, plan_of({}, {}), read_page=page)


def test_a_node_with_replicas_in_a_failed_directory_stays() -> None:
    async def page(_: str) -> str:
        return IN_SYNC.replace("offlinereplicacount 0", "offlinereplicacount 3")

    async def work(supervisor: Machine) -> None:
        with pytest.raises(HostError, match="Node 2 has 3 replicas"):
            await supervisor.scale(plan_of({}))

    run(work, plan_of({}, {}), read_page=page)


def test_ports_that_nodes_would_take_from_each_other_are_refused_before_anything_changes() -> None:
    def listening(*ports: int) -> HostPlan:
        return plan_of(*({"listeners": f"PLAINTEXT://h:{port}"} for port in ports))

    async def work(supervisor: Machine) -> None:
        with pytest.raises(HostError, match="Node 1 would get port 9093, which node 2 has now"):
            await supervisor.scale(listening(9093, 9094, 9095))
        assert [node.starts for node in supervisor.nodes if isinstance(node, Child)] == [1, 1]
        await supervisor.scale(listening(9192, 9193, 9194))
        await supervisor.restart(listening(9192, 9193, 9194))
        assert states(supervisor) == ["ready"] * 3

    run(work, listening(9092, 9093))
