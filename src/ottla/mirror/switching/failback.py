"""Failback: clients that were switched to the target return to the source.

    verify     records that were written at the source meanwhile, and what has to be copied back
    leftovers  the records that the target does not have go there, since its consumers have to read them
    return     what was written at the target goes back, until the source has it all
    stop       no more records at the target; the last ones go back; the flow that brought them is ended
    translate  commit the offsets of groups at the source
    switch     the flow may run again as before the failover; say what clients have to do

An exact copy returns with its offsets if the source has written nothing meanwhile and is a cluster of Ottla. Otherwise
its records get new offsets at the source.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from ottla.client.admin.offsets import LATEST, Offsets
from ottla.client.admin.topics import Topics
from ottla.client.cluster import Cluster
from ottla.mirror.copying.fencing import fence_workers
from ottla.mirror.progress import find_progress
from ottla.mirror.settings import FlowSettings, MirrorError, OffsetMode
from ottla.mirror.state import FlowState, FlowStates, Parting, Phase
from ottla.mirror.switching.failover import addresses, find_missing
from ottla.mirror.switching.release import open_transactions, release, set_mirror_name, wait_until_closed
from ottla.mirror.switching.report import RecordRange, SwitchReport
from ottla.mirror.switching.returning_groups import ReturningGroups
from ottla.mirror.switching.ways_back import (
    copy_until,
    find_new_topics,
    leftover_flow,
    leftovers_of,
    prepare,
    return_flow,
    set_positions,
)
from ottla.mirror.topics import TopicSync
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["Failback"]

_TRANSACTION_SECONDS = 90.0
_PAUSE_SECONDS = 0.2


async def _nothing() -> None:
    return


class Failback:
    """One run of the command.

    `on_step` is called with the name of every step before it. `before_stop` is awaited when the source has caught up
    with the target: clients of the target have to stop then. Topics that were created at the target after the failover
    go to the source, too, if `brings_new_topics`; a command that is repeated keeps to the first choice.
    """

    def __init__(
        self,
        flow: FlowSettings,
        on_step: Callable[[str], None] = lambda _: None,
        before_stop: Callable[[], Awaitable[None]] = _nothing,
        *,
        brings_new_topics: bool = False,
    ) -> None:
        self.flow = flow
        self._brings_new_topics = brings_new_topics
        self._on_step = on_step
        self._before_stop = before_stop
        self._source = Cluster(flow.source_client)
        self._target = Cluster(flow.target_client)
        self._states = FlowStates(flow, self._target)
        self._run_id = str(uuid.uuid4())

    async def verify(self) -> SwitchReport:
        """What was written at the source meanwhile. Changes nothing."""
        state = await self._states.read()
        if state.phase not in (Phase.FAILED_OVER, Phase.FAILING_BACK):
            raise MirrorError(
                f"{self.flow.name} is {state.phase.value}: there is nothing to bring back before a failover is done."
            )
        if state.phase is Phase.FAILING_BACK:
            # Later records may have come back already.
            missing = _left_behind(state)
        else:
            missing = await find_missing(self.flow, self._source, state.partings)
        new = await find_new_topics(self.flow, self._source, self._target, state)
        return SwitchReport(self.flow.name, state.phase.value, not_copied=missing, new_topics=sorted(new))

    async def run(self) -> SwitchReport:
        """Runs all steps. Steps that a killed command has done find nothing to do. Raises MirrorError and the like."""
        self._on_step("verify")
        report = await self.verify()
        state = await self._begin(report)
        back = return_flow(self.flow, state, OffsetMode(state.return_mode))
        if back.offset_mode is OffsetMode.TRANSLATED:
            self._on_step("leftovers")
            await self._copy_leftovers(state, report)
        self._on_step("return")
        await self._begin_return(state, back)
        await copy_until(back, self._run_id, lambda: self._has_returned(back))
        await self._before_stop()
        self._on_step("stop")
        await self._stop(back)
        self._on_step("translate")
        groups = ReturningGroups(self.flow, back, self._source, self._target)
        try:
            await groups.commit(state, report)
        finally:
            await groups.close()
        self._on_step("switch")
        state = await self._finish(state, back)
        report.phase = state.phase.value
        report.what_to_do = self._instructions(back.offset_mode, report)
        return report

    async def close(self) -> None:
        await self._states.close()
        await asyncio.gather(self._source.close(), self._target.close())

    async def _begin(self, report: SwitchReport) -> FlowState:
        """Stores the ends of the source and the mode of the return, which hold for repeated commands as well."""
        state = await self._states.read()
        if state.phase is Phase.FAILING_BACK:
            if state.return_mode == OffsetMode.EXACT.value:
                await self._own_source(state)
            return await self._states.change(lambda state: state.enter(Phase.FAILING_BACK, self._run_id))
        mode = await self._choose_mode(state, report)
        ends = {(missing.topic, missing.partition): missing.end_offset for missing in report.not_copied}
        partings: dict[str, Mapping[int, Parting]] = {
            topic: {
                number: replace(parting, source_end=ends.get((topic, number), parting.source_position))
                for number, parting in by_number.items()
            }
            for topic, by_number in state.partings.items()
        }
        if self._brings_new_topics:
            # All of their records were written at the target.
            new = await find_new_topics(self.flow, self._source, self._target, state)
            partings |= {topic: dict.fromkeys(numbers, Parting(0, 0)) for topic, numbers in new.items()}
            report.new_topics = []
        return await self._states.change(
            lambda state: replace(state, partings=partings, return_mode=mode.value).enter(
                Phase.FAILING_BACK, self._run_id
            )
        )

    async def _choose_mode(self, state: FlowState, report: SwitchReport) -> OffsetMode:
        """Exact if the topics of the source are the beginnings of the copies, and can keep offsets."""
        if self.flow.offset_mode is OffsetMode.TRANSLATED or report.not_copied:
            return OffsetMode.TRANSLATED
        if not await self._own_source(state):
            return OffsetMode.TRANSLATED
        # From here on only the return writes to the topics of the source.
        late = await find_missing(self.flow, self._source, state.partings)
        if not late:
            return OffsetMode.EXACT
        await set_mirror_name(self._source, state.partings, None)
        report.not_copied = late
        return OffsetMode.TRANSLATED

    async def _own_source(self, state: FlowState) -> bool:
        """Makes the topics of the source copies. False if the source is no cluster of Ottla."""
        present = await Topics(self._source).all()
        names = [topic for topic in state.partings if topic in present]
        errors = await set_mirror_name(self._source, names, f"{self.flow.target}->{self.flow.source}")
        for topic, error in errors.items():
            if error is not None and error.code is ErrorCode.INVALID_CONFIG:
                return False
            if error is not None:
                raise KafkaError(error.code, f"{topic}: {error.message}")
        await wait_until_closed(self._source, names)
        return True

    # Leftovers.

    async def _copy_leftovers(self, state: FlowState, report: SwitchReport) -> None:
        if not report.not_copied:
            return
        flow = leftover_flow(self.flow, state)
        leftovers = leftovers_of(self.flow, state)
        if flow.role:
            await prepare(flow, self._target, self._run_id)
            starts = {
                place: min([leftover.position, *leftover.open_transactions.values()])
                for place, leftover in leftovers.items()
            }
            await set_positions(flow, self._source, self._target, starts)
        else:
            await fence_workers(flow, self._target)
            await TopicSync(flow, self._source, self._target).refresh()
        # The copy ends here: with a client that still writes at the source it would go on for ever.
        ends = {
            TopicPartition(missing.topic, missing.partition): missing.end_offset
            for missing in await find_missing(flow, self._source, {})
        }

        async def has_all() -> bool:
            progress = await find_progress(flow, self._source, self._target, is_complete=True)
            return all(partition.position >= ends.get(partition.pair.source, 0) for partition in progress)

        await copy_until(flow, self._run_id, has_all, leftovers)
        await fence_workers(flow, self._target)

    # Return.

    async def _begin_return(self, state: FlowState, back: FlowSettings) -> None:
        await prepare(back, self._source, self._run_id)
        # Partitions that were added at the target meanwhile.
        await TopicSync(back, self._target, self._source).refresh()
        if back.offset_mode is OffsetMode.TRANSLATED:
            starts = {
                TopicPartition(self.flow.policy.target_name(self.flow.source, topic), number): parting.target_end
                for topic, partings in state.partings.items()
                for number, parting in partings.items()
            }
            await set_positions(back, self._target, self._source, starts)

    async def _has_returned(self, back: FlowSettings) -> bool:
        return not any(
            progress.missing for progress in await find_progress(back, self._target, self._source, is_complete=True)
        )

    async def _stop(self, back: FlowSettings) -> None:
        flow = self.flow
        pairs = [progress.pair for progress in await find_progress(back, self._target, self._source, is_complete=True)]
        if back.offset_mode is OffsetMode.TRANSLATED:
            # Committed records behind the first record of an open transaction are not copied before it ends.
            await self._wait_for_transactions([pair.source for pair in pairs])
            await copy_until(back, self._run_id, lambda: self._has_returned(back))
            await fence_workers(back, self._source)
            return
        copies = {pair.source.topic for pair in pairs}
        for topic, error in (await set_mirror_name(self._target, copies, flow.name)).items():
            if error is not None:
                raise KafkaError(error.code, f"{topic}: {error.message}")
        await wait_until_closed(self._target, copies)
        await self._wait_for_transactions([pair.source for pair in pairs])
        await copy_until(back, self._run_id, lambda: self._has_returned(back))
        await release(back, [pair.target for pair in pairs])
        for progress in await find_progress(back, self._target, self._source, is_complete=True):
            if progress.position != progress.end:
                raise MirrorError(f"{progress.pair.source} was written after the stop; repeat the command.")

    async def _wait_for_transactions(self, places: list[TopicPartition]) -> None:
        """Waits for the markers of open transactions at the target: nothing behind these transactions is complete."""
        deadline = asyncio.get_running_loop().time() + _TRANSACTION_SECONDS
        while still_open := await open_transactions(self._target, places, mirrored=False):
            if asyncio.get_running_loop().time() > deadline:
                raise MirrorError(
                    f"Transactions are open in {', '.join(str(place) for place in sorted(still_open)[:5])} at "
                    f"{self.flow.target}: stop the producers, or end them with `ottla transactions abort`, and repeat "
                    "the command."
                )
            await asyncio.sleep(_PAUSE_SECONDS)

    # Switch.

    async def _finish(self, state: FlowState, back: FlowSettings) -> FlowState:
        """Lets the flow run again, without copying the records that came back to the target a second time."""
        partings: dict[str, dict[int, Parting]] = defaultdict(dict)
        if back.offset_mode is OffsetMode.TRANSLATED:
            places = [
                progress.pair.target
                for progress in await find_progress(back, self._target, self._source, is_complete=True)
            ]
            ends = await Offsets(self._source).numbers(places, LATEST) if places else {}
            for place, end in ends.items():
                parting = state.parting(place) or Parting(0, 0)
                partings[place.topic][place.partition] = replace(parting, cut_until=end)
        kept: dict[str, Mapping[int, Parting]] = {**partings}
        return await self._states.change(
            lambda state: replace(state, partings=kept, return_mode="").enter(Phase.RUNNING, "")
        )

    def _instructions(self, mode: OffsetMode, report: SwitchReport) -> list[str]:
        flow = self.flow
        instructions = [
            f"Clients use {flow.source} again: set bootstrap.servers = "
            f"{addresses(flow.source_client.bootstrap_servers)}, with the login and the topics of {flow.source}."
        ]
        if flow.offset_mode is OffsetMode.EXACT and mode is OffsetMode.TRANSLATED:
            instructions.append(
                f"Offsets differ now: delete the copies at {flow.target} before the mirror is started again, and it "
                "makes them from the beginning."
            )
        if report.new_topics:
            instructions.append(
                f"These topics were created at {flow.target} after the failover and stay there: "
                f"{', '.join(report.new_topics)}."
            )
        if report.busy_groups:
            instructions.append(
                f"These groups have members at {flow.source} already and keep their offsets: "
                f"{', '.join(report.busy_groups)}."
            )
        if report.repeating_groups:
            instructions.append(
                f"These groups have not read all records that {flow.source} had left behind, and read some others "
                f"twice: {', '.join(report.repeating_groups)}."
            )
        instructions.append("The mirror may be started again: ottla mirror FILE")
        return instructions


def _left_behind(state: FlowState) -> list[RecordRange]:
    ranges = []
    for topic, partings in sorted(state.partings.items()):
        for number, parting in sorted(partings.items()):
            first = min([parting.source_position, *parting.open_transactions.values()])
            if parting.source_end > first:
                ranges.append(RecordRange(topic, number, first, parting.source_end))
    return ranges
