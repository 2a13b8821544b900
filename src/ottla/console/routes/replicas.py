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

# Sentences of a plan; a longer plan ends with the number of the others.
SENTENCES_MAX = 50

Replicas = Mapping[TopicPartition, Sequence[int]]


async def _reassignments(call: Call) -> dict[str, Any]:
    page = PageRequest.of(call.query, sort="topic", sortable=("topic",))
    moving = await call.admin.partitions.reassignments()
    rows = [one for one in moving if page.matches(one.topic)]
    items = [
        {
            **partition_json(one),
            "replicas": list(moving[one].replicas),
            "adding": list(moving[one].adding),
            "removing": list(moving[one].removing),
        }
        for one in page.cut(rows, lambda one: one)
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
    """Moves with a picture of before and after. All of them begin at once if `apply` does nothing else."""
    current = {one: _replicas(state, one) for one in target}
    moved = {one: wanted for one, wanted in target.items() if list(wanted) != list(current[one])}
    if not moved:
        raise ApiError(409, "NOTHING_TO_DO", "Every replica is where the plan wants it.")
    sizes = await call.view.sizes_of(moved)
    copied = sum(
        sizes.get(one, 0) * len([broker for broker in wanted if broker not in current[one]])
        for one, wanted in moved.items()
    )

    async def begin() -> dict[str, Any]:
        raise_first((await call.admin.partitions.reassign(moved)).values())
        return {"moving": len(moved)}

    plan = [
        f"Moves {one} from brokers {_words(current[one])} to {_words(wanted)}."
        for one, wanted in list(moved.items())[:SENTENCES_MAX]
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
                "partitions": [{**partition_json(one), "replicas": list(wanted)} for one, wanted in moved.items()],
            },
            **(preview or {}),
        },
    )


async def _target(call: Call, state: ClusterState) -> dict[TopicPartition, list[int]]:
    given = call.body.get("assignments")
    if given:
        found = {}
        for one, entry in zip(partitions_of_body(given), given, strict=True):
            replicas = entry.get("replicas")
            if not _are_numbers(replicas) or not replicas or len(set(replicas)) != len(replicas):
                raise invalid(f"{one} needs 'replicas', a list of brokers, each once.")
            if any(broker not in state.brokers for broker in replicas):
                raise invalid(f"{one}: not all of {replicas} are running brokers.")
            await topic_of(call, one.topic)
            found[one] = replicas
        return found
    names = call.names("topics")
    if not names:
        raise invalid("The body needs 'topics' or 'assignments'.")
    brokers = call.body.get("brokers") or sorted(state.brokers)
    if not _are_numbers(brokers) or any(broker not in state.brokers for broker in brokers):
        raise invalid("'brokers' must be a list of running brokers.")
    for name in names:
        await topic_of(call, name)
    current = {one: _replicas(state, one) for one in state.partitions_of(names)}
    return propose(current, {broker: state.brokers[broker].rack for broker in brokers})


def _replicas(state: ClusterState, one: TopicPartition) -> list[int]:
    info = state.topics.get(one.topic)
    if info is None or one.partition not in info.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {one}.")
    return list(info.partitions[one.partition].replicas)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value)


def _words(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


def _picture(
    state: ClusterState, shown: Replicas, moved: Replicas, sizes: Mapping[TopicPartition, int]
) -> dict[str, Any]:
    """Replicas, leaders and bytes of every broker, with `moved` in their new places."""
    counts = {broker: {"id": broker, "replicas": 0, "leaders": 0, "bytes": 0} for broker in sorted(state.brokers)}
    for name, info in state.topics.items():
        for number, partition in info.partitions.items():
            one = TopicPartition(name, number)
            replicas = moved.get(one, partition.replicas)
            leader = replicas[0] if one in moved else partition.leader
            for broker in replicas:
                told = counts.setdefault(broker, {"id": broker, "replicas": 0, "leaders": 0, "bytes": 0})
                told["replicas"] += 1
                told["bytes"] += sizes.get(one, 0)
            if leader in counts:
                counts[leader]["leaders"] += 1
    return {
        "brokers": list(counts.values()),
        "partitions": [{**partition_json(one), "replicas": list(replicas)} for one, replicas in sorted(shown.items())],
    }


async def _cancel(call: Call) -> Change:
    wanted = partitions_of_body(call.body.get("partitions"))
    moving = await call.admin.partitions.reassignments(wanted)
    missing = [one for one in wanted if one not in moving]
    if missing or not wanted:
        raise ApiError(404, "NO_REASSIGNMENT_IN_PROGRESS", f"{missing[0] if missing else 'Nothing'} is not moving.")

    async def apply() -> dict[str, Any]:
        raise_first((await call.admin.partitions.reassign(dict.fromkeys(wanted, None))).values())
        return {"cancelled": len(wanted)}

    return Change(
        plan=[f"Stops moving {one}; its replicas are again {_words(_origin(moving[one]))}." for one in wanted],
        command=command_line("reassign", "cancel", options=[("--reassignment-json-file", "plan.json")]),
        apply=apply,
    )


def _origin(moving: Any) -> list[int]:
    return [broker for broker in moving.replicas if broker not in moving.adding]


async def _elect(call: Call) -> Change:
    kind = call.text("kind", "preferred").lower()
    if kind not in ("preferred", "unclean"):
        raise invalid("kind is preferred or unclean.")
    given = call.body.get("partitions")
    wanted = None if given is None else partitions_of_body(given)
    is_unclean = kind == "unclean"

    async def apply() -> dict[str, Any]:
        answers = await call.admin.partitions.elect(
            ElectionType.UNCLEAN if is_unclean else ElectionType.PREFERRED, wanted
        )
        raise_first(one for one in answers.values() if one is None or one.code != ErrorCode.ELECTION_NOT_NEEDED)
        return {"elected": sum(one is None for one in answers.values())}

    which = "all partitions that need one" if wanted is None else count_of(len(wanted), "partition")
    how = "any replica that is alive" if is_unclean else "the preferred replica"
    words = [] if wanted is None else [f"{one.topic}:{one.partition}" for one in wanted]
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
