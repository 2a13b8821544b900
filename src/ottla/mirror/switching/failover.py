"""Failover: clients of the source continue at the target.

    verify     how far the target is behind, and which records of the source it does not have
    stop       fence the workers, or release the exact copies; note where the two sides part
    translate  commit the offsets of groups at the target
    switch     say what clients have to do

Every step may be repeated: a command that was killed is run again, and continues from the state of the flow. Only the
target is needed, because the source may be lost.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from ottla.client.admin.groups import Groups
from ottla.client.admin.offsets import EARLIEST, LATEST, Offsets
from ottla.client.admin.topics import Topics
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.metadata import TopicInfo
from ottla.mirror.copying.fencing import fence_workers
from ottla.mirror.copying.pairs import is_copied
from ottla.mirror.groups import IDLE_GROUP_STATES, GroupSync
from ottla.mirror.messages import Checkpoint
from ottla.mirror.names import HEARTBEATS_TOPIC
from ottla.mirror.offset_map import MapReader, map_topic
from ottla.mirror.settings import FlowSettings, MirrorError, OffsetMode
from ottla.mirror.state import FlowState, FlowStates, Parting, Phase
from ottla.mirror.switching.release import end_open_transactions, open_transactions, release
from ottla.mirror.switching.report import RecordRange, SwitchReport
from ottla.mirror.topics import TopicSync
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["Failover", "addresses", "find_missing", "is_parted"]

SOURCE_SECONDS = 15.0
"""A source without an answer for this time counts as lost."""

Partings = dict[str, dict[int, Parting]]


class Failover:
    """One run of the command. `on_step` is called with the name of every step before it."""

    def __init__(self, flow: FlowSettings, on_step: Callable[[str], None] = lambda _: None) -> None:
        self.flow = flow
        self._on_step = on_step
        # With a short time-out, so that a lost source is given up soon.
        impatient = replace(flow.source_client, bootstrap_timeout_ms=int(SOURCE_SECONDS * 1000))
        self._source = Cluster(impatient)
        self._target = Cluster(flow.target_client)
        self._states = FlowStates(flow, self._target)
        self._topics = TopicSync(flow, self._source, self._target)
        self._is_exact = flow.offset_mode is OffsetMode.EXACT
        self._run_id = str(uuid.uuid4())

    async def verify(self) -> SwitchReport:
        """What a failover would leave behind. Changes nothing."""
        state = await self._states.read()
        self._check_phase(state)
        partings = state.partings if is_parted(state) else await self._find_partings()
        report = SwitchReport(self.flow.name, state.phase.value)
        try:
            async with asyncio.timeout(SOURCE_SECONDS):
                report.not_copied = await find_missing(self.flow, self._source, partings)
        except (ClientError, KafkaError, TimeoutError):
            report.source_answers = False
        return report

    async def verify_copied(self) -> SwitchReport:
        """Raises MirrorError unless the target has everything: for a switch while the source is available.

        A switch that has begun is not refused, because nothing is copied any more.
        """
        report = await self.verify()
        if report.phase != Phase.RUNNING.value:
            return report
        source = self.flow.source
        if not report.source_answers:
            raise MirrorError(
                f"{source} does not answer, so it is unknown whether everything is copied. If it is lost, "
                "`ottla mirror failover` goes on without it."
            )
        if undecided := await find_undecided(self.flow, self._source):
            raise MirrorError(
                f"Transactions are open in {', '.join(str(place) for place in undecided[:5])} at {source}, and what is "
                "behind their first records is not copied: stop the producers, or end the transactions with "
                "`ottla transactions abort`, and repeat the command."
            )
        if missing := sum(uncopied.offsets for uncopied in report.not_copied):
            raise MirrorError(
                f"{missing} offsets of {source} are not copied yet. Stop the producers there, wait until "
                "`ottla migrate report` shows no lag, and repeat the command."
            )
        return report

    async def run(self, *, only_if_copied: bool = False) -> SwitchReport:
        """Runs all steps that are left. Raises MirrorError, KafkaError or ClientError."""
        self._on_step("verify")
        report = await (self.verify_copied() if only_if_copied else self.verify())
        state = await self._states.read()
        if state.phase is not Phase.FAILED_OVER:
            self._on_step("stop")
            state = await self._stop()
            self._on_step("translate")
            await self._translate(state, report)
            self._on_step("switch")
            state = await self._states.change(lambda state: state.enter(Phase.FAILED_OVER, self._run_id))
        report.phase = state.phase.value
        report.what_to_do = self._instructions(state, report)
        return report

    async def close(self) -> None:
        await self._states.close()
        await asyncio.gather(self._source.close(), self._target.close())

    # Verify.

    def _check_phase(self, state: FlowState) -> None:
        if state.phase is Phase.FAILING_BACK:
            raise MirrorError(f"{self.flow.name}: a failback has begun; finish it with `ottla mirror failback`.")

    async def _find_partings(self) -> Partings:
        """The positions at which the sides part now, from the target alone."""
        positions = await (self._copied_ends() if self._is_exact else self._committed_positions())
        ends = await Offsets(self._target).numbers(positions, LATEST)
        cut_off = (
            await open_transactions(self._target, positions, mirrored=True) if self._is_exact and positions else {}
        )
        partings: Partings = defaultdict(dict)
        for copy, position in positions.items():
            topic = self.flow.policy.source_name(self.flow.source, copy.topic)
            if topic is None or _is_heartbeat(topic):
                continue
            partings[topic][copy.partition] = Parting(position, ends[copy], cut_off.get(copy, {}))
        return dict(partings)

    async def _committed_positions(self) -> dict[TopicPartition, int]:
        committed = await Groups(self._target).offsets(self.flow.group_id, stable=True)
        present = await Topics(self._target).all()
        positions = {
            place: entry.offset
            for place, entry in committed.items()
            if place.topic in present and place.partition in present[place.topic].partitions
        }
        return {**positions, **await self._positions_of_map(present, positions.keys())}

    async def _positions_of_map(
        self, present: Mapping[str, TopicInfo], committed: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Positions of copies whose committed offsets have expired, because the flow was stopped for long."""
        flow = self.flow
        copies: dict[TopicPartition, TopicPartition] = {}
        for name, info in present.items():
            topic = flow.policy.source_name(flow.source, name)
            if topic is not None and is_copied(flow, topic, is_internal=info.is_internal):
                copies |= {TopicPartition(topic, number): TopicPartition(name, number) for number in info.partitions}
        copies = {place: copy for place, copy in copies.items() if copy not in committed}
        if not copies or map_topic(flow.source) not in present:
            return {}
        reader = MapReader(self._target, flow.source)
        try:
            await reader.refresh()
        finally:
            await reader.close()
        positions = {}
        for place, copy in copies.items():
            origin, topic_id = reader.origins.get(place), present[copy.topic].topic_id
            # The map of a deleted copy does not apply to a new copy.
            if origin is not None and origin.topic_ids.endswith(f"/{topic_id or ''}"):
                positions[copy] = max(origin.start, reader.maps[place].source_end)
        return positions

    async def _copied_ends(self) -> dict[TopicPartition, int]:
        """The ends of all exact copies of this flow. Copies that were released before belong to their users."""
        topics = await Topics(self._target).all()
        known = (await self._states.read()).partings if await self._has_begun() else {}
        names = {name for name, is_copy in (await self._topics.exact_copies(topics)).items() if is_copy}
        # Copies that a killed command has released already.
        names |= {self.flow.policy.target_name(self.flow.source, topic) for topic in known}
        places = [
            TopicPartition(name, number) for name in names if name in topics for number in topics[name].partitions
        ]
        return await Offsets(self._target).numbers(places, LATEST) if places else {}

    async def _has_begun(self) -> bool:
        return (await self._states.read()).phase is Phase.FAILING_OVER

    # Stop.

    async def _stop(self) -> FlowState:
        """Ends all copying, then stores the positions at which the sides part."""
        await self._states.create_topic()
        state = await self._states.read()
        if state.phase is Phase.RUNNING:
            partings = await self._find_partings()
            # Without positions, which are valid only when nothing is copied any more.
            names: dict[str, Mapping[int, Parting]] = {topic: {} for topic in partings}
            state = await self._states.change(
                lambda state: replace(state, partings=names).enter(Phase.FAILING_OVER, self._run_id)
            )
        if not is_parted(state):
            await self._end_copying(state)
            partings = await self._find_partings()
            parted: dict[str, Mapping[int, Parting]] = {**partings}
            state = await self._states.change(
                lambda state: replace(state, partings=parted).enter(Phase.FAILING_OVER, self._run_id)
            )
        if self._is_exact:
            await end_open_transactions(self._target, self._cut_off(state))
        return state

    async def _end_copying(self, state: FlowState) -> None:
        if not self._is_exact:
            await fence_workers(self.flow, self._target)
            return
        topics = await Topics(self._target).all()
        names = [self.flow.policy.target_name(self.flow.source, topic) for topic in state.partings]
        await release(
            self.flow,
            [TopicPartition(name, number) for name in names if name in topics for number in topics[name].partitions],
        )

    def _cut_off(self, state: FlowState) -> dict[TopicPartition, Mapping[int, int]]:
        return {
            TopicPartition(self.flow.policy.target_name(self.flow.source, topic), number): parting.open_transactions
            for topic, partings in state.partings.items()
            for number, parting in partings.items()
            if parting.open_transactions
        }

    # Translate.

    async def _translate(self, state: FlowState, report: SwitchReport) -> None:
        groups = GroupSync(self.flow, self._source, self._target)
        if self._is_exact:
            groups.translator.fix_ends(
                {
                    TopicPartition(topic, number): parting.source_position
                    for topic, partings in state.partings.items()
                    for number, parting in partings.items()
                }
            )
        try:
            checkpoints = await self._checkpoints(groups, report)
            await groups.commit(checkpoints)
        finally:
            await groups.close()
        partitions = Counter(checkpoint.group_id for checkpoint in checkpoints)
        for group_id, group in (await Groups(self._target).describe(sorted(partitions))).items():
            if not isinstance(group, KafkaError) and group.state not in IDLE_GROUP_STATES:
                report.busy_groups.append(group_id)
            else:
                report.groups[group_id] = partitions[group_id]

    async def _checkpoints(self, groups: GroupSync, report: SwitchReport) -> list[Checkpoint]:
        if report.source_answers:
            try:
                async with asyncio.timeout(SOURCE_SECONDS):
                    await groups.refresh()
                return await groups.checkpoint()
            except (ClientError, TimeoutError):
                report.source_answers = False
        return await groups.last_checkpoints()

    # Switch.

    def _instructions(self, state: FlowState, report: SwitchReport) -> list[str]:
        flow = self.flow
        instructions = [
            f"Clients use {flow.target}: set bootstrap.servers = {addresses(flow.target_client.bootstrap_servers)}, "
            f"with the login of {flow.target}."
        ]
        renamed = [topic for topic in state.partings if flow.policy.target_name(flow.source, topic) != topic]
        if renamed:
            example = sorted(renamed)[0]
            copy = flow.policy.target_name(flow.source, example)
            instructions.append(
                f"Producers and consumers use the copies: {copy} in the place of {example}, for example."
            )
        if report.busy_groups:
            instructions.append(
                f"These groups have members at {flow.target} already and keep their offsets: "
                f"{', '.join(report.busy_groups)}."
            )
        if not report.source_answers:
            instructions.append(
                f"{flow.source} does not answer: what it has and {flow.target} has not is unknown. "
                "`ottla mirror failback --dry-run` lists it once it is back."
            )
        instructions.append(f"The way back is: ottla mirror failback FILE --flow '{flow.name}'")
        return instructions


async def find_missing(
    flow: FlowSettings, source: Cluster, partings: Mapping[str, Mapping[int, Parting]]
) -> list[RecordRange]:
    """Records of the source that are not at the target, also those of topics that have no copy yet."""
    places = await _places_to_copy(flow, source)
    offsets = Offsets(source)
    is_exact = flow.offset_mode is OffsetMode.EXACT
    ends = await offsets.numbers(places, LATEST, committed=not is_exact)
    starts = await offsets.numbers(places, EARLIEST)
    missing = []
    for place in places:
        parting = partings.get(place.topic, {}).get(place.partition)
        first = max(starts[place], 0 if parting is None else parting.source_position)
        if parting is not None and parting.open_transactions:
            first = min(first, *parting.open_transactions.values())
        if ends[place] > first:
            missing.append(RecordRange(place.topic, place.partition, first, ends[place]))
    return missing


async def find_undecided(flow: FlowSettings, source: Cluster) -> list[TopicPartition]:
    """Partitions of the source with an open transaction: consumers of committed records wait there, so does a copy."""
    places = await _places_to_copy(flow, source)
    ends = await Offsets(source).numbers(places, LATEST)
    stable_ends = await Offsets(source).numbers(places, LATEST, committed=True)
    return [place for place in places if stable_ends[place] < ends[place]]


async def _places_to_copy(flow: FlowSettings, source: Cluster) -> list[TopicPartition]:
    return [
        TopicPartition(name, number)
        for name, info in sorted((await Topics(source).all()).items())
        if info.error is None and is_copied(flow, name, is_internal=info.is_internal) and not _is_heartbeat(name)
        for number in info.partitions
    ]


def is_parted(state: FlowState) -> bool:
    """Whether the state has the positions of a failover."""
    is_switched = state.phase in (Phase.FAILING_OVER, Phase.FAILED_OVER)
    return is_switched and (not state.partings or any(state.partings.values()))


def _is_heartbeat(topic: str) -> bool:
    return topic == HEARTBEATS_TOPIC or topic.endswith(f".{HEARTBEATS_TOPIC}")


def addresses(servers: object) -> str:
    assert isinstance(servers, tuple)
    return ",".join(f"{server.host}:{server.port}" for server in servers)
