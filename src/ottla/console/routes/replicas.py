"""Where replicas are: reassignments with a picture of before and after, and elections of leaders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ottla.cli.logic.reassignment import propose
from ottla.cli.output import size
from ottla.client.admin.partitions import ElectionType
from ottla.console.answers import ApiError, PageRequest, invalid, page_of
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change, command_line
from ottla.console.cluster_state import ClusterState
from ottla.console.routes.topics import topic_of
from ottla.console.words import count_of, partition_json, partitions_of_body, raise_first
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["REPLICA_ROUTES", "change_of_moves"]

# Sentences of a plan. A longer plan ends with the number of the other moves.
SENTENCES_MAX = 50

Replicas = Mapping[TopicPartition, Sequence[int]]


async def _reassignments(call: Call) -> dict[str, Any]:
    page = PageRequest.of(call.query, sort="topic", sortable=("topic",))
    moving = await call.admin.partitions.reassignments()
    rows = [partition for partition in moving if page.matches(partition.topic)]
    items = [
        {
            **partition_json(partition),
            "replicas": list(moving[partition].replicas),
            "adding": list(moving[partition].adding),
            "removing": list(moving[partition].removing),
        }
        for partition in page.cut(rows, lambda partition: partition)
    ]
    return page_of(items, len(rows), page)


async def _reassign(call: Call) -> Change:
    state = await call.view.state.get()
    target = await _target(call, state)
    command = command_line("reassign", "execute", options=[("--reassignment-json-file", "plan.json")])
    return await change_of_moves(call, state, target, command=command)


async def change_of_moves(
    call: Call,
    state: ClusterState,
    target: dict[TopicPartition, list[int]],
    *,
    command: str,
    apply: Callable[[], Awaitable[Any]] | None = None,
    warnings: Sequence[str] = (),
    preview: Mapping[str, Any] | None = None,
) -> Change:
    """Moves with a picture of before and after. Without `apply`, all moves begin at once."""
    current = {partition: _replicas(state, partition) for partition in target}
    moved = {
        partition: replicas for partition, replicas in target.items() if list(replicas) != list(current[partition])
    }
    if not moved:
        raise ApiError(409, "NOTHING_TO_DO", "Every replica is where the plan wants it.")
    sizes = await call.view.sizes_of(moved)
    copied = sum(
        sizes.get(partition, 0) * len([broker for broker in replicas if broker not in current[partition]])
        for partition, replicas in moved.items()
    )

    async def begin() -> dict[str, Any]:
        raise_first((await call.admin.partitions.reassign(moved)).values())
        return {"moving": len(moved)}

    plan = [
        f"Moves {partition} from brokers {_words(current[partition])} to {_words(replicas)}."
        for partition, replicas in list(moved.items())[:SENTENCES_MAX]
    ]
    if len(moved) > SENTENCES_MAX:
        plan.append(f"Moves {len(moved) - SENTENCES_MAX} more partitions.")
    return Change(
        plan=plan,
        command=command,
        apply=apply or begin,
        warnings=[*([f"About {size(copied)} are copied between brokers."] if copied else []), *warnings],
        preview={
            "before": _picture(state, current, {}, sizes),
            "after": _picture(state, moved, moved, sizes),
            "plan_file": {
                "version": 1,
                "partitions": [
                    {**partition_json(partition), "replicas": list(replicas)} for partition, replicas in moved.items()
                ],
            },
            **(preview or {}),
        },
    )


async def _target(call: Call, state: ClusterState) -> dict[TopicPartition, list[int]]:
    assignments = call.body.get("assignments")
    if assignments:
        target = {}
        for partition, assignment in zip(partitions_of_body(assignments), assignments, strict=True):
            replicas = assignment.get("replicas")
            if not _are_numbers(replicas) or not replicas or len(set(replicas)) != len(replicas):
                raise invalid(f"{partition} needs 'replicas', a list of brokers, each once.")
            if any(broker not in state.brokers for broker in replicas):
                raise invalid(f"{partition}: not all of {replicas} are running brokers.")
            await topic_of(call, partition.topic)
            target[partition] = replicas
        return target
    names = call.names("topics")
    if not names:
        raise invalid("The body needs 'topics' or 'assignments'.")
    brokers = call.body.get("brokers") or sorted(state.brokers)
    if not _are_numbers(brokers) or any(broker not in state.brokers for broker in brokers):
        raise invalid("'brokers' must be a list of running brokers.")
    for name in names:
        await topic_of(call, name)
    current = {partition: _replicas(state, partition) for partition in state.partitions_of(names)}
    return propose(current, {broker: state.brokers[broker].rack for broker in brokers})


def _replicas(state: ClusterState, partition: TopicPartition) -> list[int]:
    info = state.topics.get(partition.topic)
    if info is None or partition.partition not in info.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {partition}.")
    return list(info.partitions[partition.partition].replicas)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(number, int) and not isinstance(number, bool) for number in value)


def _words(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


def _picture(
    state: ClusterState, shown: Replicas, moved: Replicas, sizes: Mapping[TopicPartition, int]
) -> dict[str, Any]:
    """Replicas, leaders and bytes of every broker, with `moved` in their new places."""
    counts = {broker: {"id": broker, "replicas": 0, "leaders": 0, "bytes": 0} for broker in sorted(state.brokers)}
    for name, info in state.topics.items():
        for number, info_of_partition in info.partitions.items():
            partition = TopicPartition(name, number)
            replicas = moved.get(partition, info_of_partition.replicas)
            leader = replicas[0] if partition in moved else info_of_partition.leader
            for broker in replicas:
                totals = counts.setdefault(broker, {"id": broker, "replicas": 0, "leaders": 0, "bytes": 0})
                totals["replicas"] += 1
                totals["bytes"] += sizes.get(partition, 0)
            if leader in counts:
                counts[leader]["leaders"] += 1
    return {
        "brokers": list(counts.values()),
        "partitions": [
            {**partition_json(partition), "replicas": list(replicas)} for partition, replicas in sorted(shown.items())
        ],
    }


async def _cancel(call: Call) -> Change:
    wanted = partitions_of_body(call.body.get("partitions"))
    moving = await call.admin.partitions.reassignments(wanted)
    missing = [partition for partition in wanted if partition not in moving]
    if missing or not wanted:
        raise ApiError(404, "NO_REASSIGNMENT_IN_PROGRESS", f"{missing[0] if missing else 'Nothing'} is not moving.")

    async def apply() -> dict[str, Any]:
        raise_first((await call.admin.partitions.reassign(dict.fromkeys(wanted, None))).values())
        return {"cancelled": len(wanted)}

    return Change(
        plan=[
            f"Stops moving {partition}; its replicas are again {_words(_origin(moving[partition]))}."
            for partition in wanted
        ],
        command=command_line("reassign", "cancel", options=[("--reassignment-json-file", "plan.json")]),
        apply=apply,
    )


def _origin(moving: Any) -> list[int]:
    return [broker for broker in moving.replicas if broker not in moving.adding]


async def _elect(call: Call) -> Change:
    kind = call.text("kind", "preferred").lower()
    if kind not in ("preferred", "unclean"):
        raise invalid("kind is preferred or unclean.")
    body_partitions = call.body.get("partitions")
    wanted = None if body_partitions is None else partitions_of_body(body_partitions)
    is_unclean = kind == "unclean"

    async def apply() -> dict[str, Any]:
        answers = await call.admin.partitions.elect(
            ElectionType.UNCLEAN if is_unclean else ElectionType.PREFERRED, wanted
        )
        raise_first(
            answer for answer in answers.values() if answer is None or answer.code != ErrorCode.ELECTION_NOT_NEEDED
        )
        return {"elected": sum(answer is None for answer in answers.values())}

    which = "all partitions that need one" if wanted is None else count_of(len(wanted), "partition")
    how = "any replica that is alive" if is_unclean else "the preferred replica"
    words = [] if wanted is None else [f"{partition.topic}:{partition.partition}" for partition in wanted]
    return Change(
        plan=[f"Elects {how} as leader of {which}."],
        command=command_line(
            "elect-leaders",
            *words,
            options=[("--election-type", kind), ("--all-topic-partitions", wanted is None), ("--yes", is_unclean)],
        ),
        apply=apply,
        warnings=["Records that only the lost leader had are lost."] if is_unclean else [],
    )


REPLICA_ROUTES = (
    Route("GET", "/api/reassignments", _reassignments),
    Route("POST", "/api/reassignments", _reassign, Need.WRITE),
    Route("DELETE", "/api/reassignments", _cancel, Need.WRITE),
    Route("POST", "/api/elections", _elect, Need.WRITE),
)
