"""The Java client in groups: its four assignors, those of the broker, and the calls of its listeners."""

from __future__ import annotations

import pytest

from tests.java.conftest import Tool

ASSIGNOR = "partition.assignment.strategy=org.apache.kafka.clients.consumer."
RANGE = ASSIGNOR + "RangeAssignor"
ROUND_ROBIN = ASSIGNOR + "RoundRobinAssignor"
STICKY = ASSIGNOR + "StickyAssignor"
COOPERATIVE = ASSIGNOR + "CooperativeStickyAssignor"
CONSUMER = "group.protocol=consumer"
QUICK = "heartbeat.interval.ms=100"

Story = list[tuple[str, str, set[str]]]


def tell(run_client: Tool, commands: list[str]) -> Story:
    """The events of members that run these commands, up to the last "settle": (member, event, partitions)."""
    lines = run_client("GroupMembers", stdin="\n".join(commands) + "\n").stdout.splitlines()
    story = [(words[0], words[1], set(words[2:])) for words in (line.split() for line in lines)]
    last = max(at for at, event in enumerate(story) if event[1] == "owns")
    return story[: last + 1]


def owned(story: Story, member: str) -> set[str]:
    """The partitions that the member owned at the last query."""
    return [partitions for name, event, partitions in story if (name, event) == (member, "owns")][-1]


def events(story: Story, member: str) -> list[tuple[str, set[str]]]:
    return [(event, partitions) for name, event, partitions in story if name == member and event != "owns"]


def names(topic: str, *indexes: int) -> set[str]:
    return {f"{topic}-{index}" for index in indexes}


def two_members(run: Tool, run_client: Tool, topic: str, *settings: str) -> Story:
    """Two topics with three partitions each: `a` comes first, then `b`."""
    first_topic, second_topic = f"{topic}.1", f"{topic}.2"
    for name in (first_topic, second_topic):
        run("TopicCommand", "--create", "--topic", name, "--partitions", 3)
    common = " ".join([f"group.id={topic}", *settings])
    commands = [f"open a {common}", f"subscribe a {first_topic} {second_topic}", "settle a=6", f"open b {common}"]
    return tell(
        run_client, [*commands, f"subscribe b {first_topic} {second_topic}", sizes(settings), "close b", "settle a=6"]
    )


def sizes(settings: tuple[str, ...]) -> str:
    """Only range assigns each topic separately; the broker orders members by their ids, which are random."""
    if RANGE in settings:
        return "settle a=4 b=2"
    return "settle a=2..4 b=2..4" if "group.remote.assignor=range" in settings else "settle a=3 b=3"


@pytest.mark.parametrize(
    "settings", [(RANGE, QUICK), (CONSUMER, "group.remote.assignor=range")], ids=["client", "broker"]
)
def test_range(run: Tool, run_client: Tool, topic: str, settings: tuple[str, ...]) -> None:
    story = two_members(run, run_client, topic, *settings)
    (_, _, first), (_, _, second), *_ = [event for event in story if event[1] == "owns"][1:]
    first_topic, second_topic = f"{topic}.1", f"{topic}.2"
    shares = [names(first_topic, 0, 1) | names(second_topic, 0, 1), names(first_topic, 2) | names(second_topic, 2)]
    assert [first, second] in ([shares] if settings[0] == RANGE else [shares, shares[::-1]])


def test_round_robin(run: Tool, run_client: Tool, topic: str) -> None:
    story = two_members(run, run_client, topic, ROUND_ROBIN, QUICK)
    first_topic, second_topic = f"{topic}.1", f"{topic}.2"
    (_, _, first), (_, _, second), *_ = [event for event in story if event[1] == "owns"][1:]
    assert first == names(first_topic, 0, 2) | names(second_topic, 1)
    assert second == names(first_topic, 1) | names(second_topic, 0, 2)


def test_sticky_moves_what_it_must(run: Tool, run_client: Tool, topic: str) -> None:
    """Eager: the member gives up all partitions and gets half of them back."""
    story = two_members(run, run_client, topic, STICKY, QUICK)
    all_partitions = names(f"{topic}.1", 0, 1, 2) | names(f"{topic}.2", 0, 1, 2)
    kinds = events(story, "a")
    assert kinds[0] == ("assigned", all_partitions)
    assert kinds[1] == ("revoked", all_partitions)
    assert kinds[2][0] == "assigned"
    assert kinds[2][1] < all_partitions
    assert owned(story, "a") == all_partitions


@pytest.mark.parametrize("settings", [(COOPERATIVE, QUICK), (CONSUMER,)], ids=["cooperative", "consumer"])
def test_what_does_not_move_is_kept(run: Tool, run_client: Tool, topic: str, settings: tuple[str, ...]) -> None:
    story = two_members(run, run_client, topic, *settings)
    all_partitions = names(f"{topic}.1", 0, 1, 2) | names(f"{topic}.2", 0, 1, 2)
    changes = events(story, "a")
    if settings == (CONSUMER,) and changes[0] == ("assigned", set()):
        # The client got its partitions before it knew their topics' names, which takes a separate request.
        del changes[0]
    assert changes[0] == ("assigned", all_partitions)
    revoked = [partitions for event, partitions in changes if event == "revoked"]
    moved = set().union(*revoked)
    assert len(moved) == 3
    # `revoked` is never called without partitions, and `lost` is never called.
    closing = [("b", "revoked", moved)]
    assert [event for event in story if event[0] == "b" and event[1] == "revoked"] == closing
    assert all(revoked)
    assert not [event for event in story if event[1] == "lost"]
    # A partition is given to its new owner after the old one has given it up.
    gained = [at for at, event in enumerate(story) if event[:2] == ("b", "assigned") and event[2]]
    given_up = [at for at, event in enumerate(story) if event[:2] == ("a", "revoked")]
    assert max(given_up) < max(gained)
    if settings[0] == COOPERATIVE:
        # Assigned is called at the end of every rebalance, even with nothing.
        assert ("assigned", set()) in changes


def test_partitions_of_a_member_that_does_not_poll_are_lost(run: Tool, run_client: Tool, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--partitions", 2)
    common = f"group.id={topic} {COOPERATIVE} {QUICK}"
    story = tell(
        run_client,
        [
            f"open slow {common} max.poll.interval.ms=1500",
            f"subscribe slow {topic}",
            "settle slow=2",
            f"open other {common}",
            f"subscribe other {topic}",
            "settle other=2",
            "settle slow=1 other=1",
        ],
    )
    changes = events(story, "slow")
    assert changes[:2] == [("assigned", names(topic, 0, 1)), ("lost", names(topic, 0, 1))]
    assert ("revoked", set()) not in changes


def test_a_static_member_comes_back_to_its_partitions(run: Tool, run_client: Tool, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--partitions", 4)
    for number, protocol in enumerate([f"{RANGE} {QUICK}", CONSUMER]):
        common = f"group.id={topic}-{number} {protocol}"
        story = tell(
            run_client,
            [
                f"open a {common} group.instance.id=a",
                f"subscribe a {topic}",
                "settle a=4",
                f"open b {common} group.instance.id=b",
                f"subscribe b {topic}",
                "settle a=2 b=2",
                "close b",
                f"open b {common} group.instance.id=b",
                f"subscribe b {topic}",
                "settle b=2 a=2",
            ],
        )
        before, after = [partitions for name, event, partitions in story if (name, event) == ("b", "owns")]
        assert before == after
        # The other member got no event meanwhile.
        closed_at = next(at for at, event in enumerate(story) if event[:2] == ("b", "owns"))
        assert [event for event in story[closed_at + 1 :] if event[0] == "a" and event[1] != "owns"] == []
