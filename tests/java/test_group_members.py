"""The Java client in groups: its four assignors, the broker's, and what its listeners are told."""

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
    """What happens to members that are told to do this, up to the last "settle": (member, event, partitions)."""
    lines = run_client("GroupMembers", stdin="\n".join(commands) + "\n").stdout.splitlines()
    story = [(words[0], words[1], set(words[2:])) for words in (line.split() for line in lines)]
    last = max(at for at, each in enumerate(story) if each[1] == "owns")
    return story[: last + 1]


def owned(story: Story, member: str) -> set[str]:
    """What it owned when it was last asked."""
    return [partitions for name, event, partitions in story if (name, event) == (member, "owns")][-1]


def events(story: Story, member: str) -> list[tuple[str, set[str]]]:
    return [(event, partitions) for name, event, partitions in story if name == member and event != "owns"]


def names(topic: str, *indexes: int) -> set[str]:
    return {f"{topic}-{index}" for index in indexes}


def two_members(run: Tool, run_client: Tool, topic: str, *settings: str) -> Story:
    """Two topics with three partitions each: `a` comes first, then `b`."""
    one, two = f"{topic}.1", f"{topic}.2"
    for name in (one, two):
        run("TopicCommand", "--create", "--topic", name, "--partitions", 3)
    common = " ".join([f"group.id={topic}", *settings])
    commands = [f"open a {common}", f"subscribe a {one} {two}", "settle a=6", f"open b {common}"]
    return tell(run_client, [*commands, f"subscribe b {one} {two}", sizes(settings), "close b", "settle a=6"])


def sizes(settings: tuple[str, ...]) -> str:
    """Range alone shares each topic by itself; on the broker members are in the order of their ids, random ones."""
    if RANGE in settings:
        return "settle a=4 b=2"
    return "settle a=2..4 b=2..4" if "group.remote.assignor=range" in settings else "settle a=3 b=3"


@pytest.mark.parametrize(
    "settings", [(RANGE, QUICK), (CONSUMER, "group.remote.assignor=range")], ids=["client", "broker"]
)
def test_range(run: Tool, run_client: Tool, topic: str, settings: tuple[str, ...]) -> None:
    story = two_members(run, run_client, topic, *settings)
    (_, _, first), (_, _, second), *_ = [event for event in story if event[1] == "owns"][1:]
    one, two = f"{topic}.1", f"{topic}.2"
    shares = [names(one, 0, 1) | names(two, 0, 1), names(one, 2) | names(two, 2)]
    assert [first, second] in ([shares] if settings[0] == RANGE else [shares, shares[::-1]])


def test_round_robin(run: Tool, run_client: Tool, topic: str) -> None:
    story = two_members(run, run_client, topic, ROUND_ROBIN, QUICK)
    one, two = f"{topic}.1", f"{topic}.2"
    (_, _, first), (_, _, second), *_ = [event for event in story if event[1] == "owns"][1:]
    assert first == names(one, 0, 2) | names(two, 1)
    assert second == names(one, 1) | names(two, 0, 2)


def test_sticky_moves_what_it_must(run: Tool, run_client: Tool, topic: str) -> None:
    """Eager: everything is given up, and half of it comes back."""
    story = two_members(run, run_client, topic, STICKY, QUICK)
    everything = names(f"{topic}.1", 0, 1, 2) | names(f"{topic}.2", 0, 1, 2)
    kinds = events(story, "a")
    assert kinds[0] == ("assigned", everything)
    assert kinds[1] == ("revoked", everything)
    assert kinds[2][0] == "assigned"
    assert kinds[2][1] < everything
    assert owned(story, "a") == everything


@pytest.mark.parametrize("settings", [(COOPERATIVE, QUICK), (CONSUMER,)], ids=["cooperative", "consumer"])
def test_what_does_not_move_is_kept(run: Tool, run_client: Tool, topic: str, settings: tuple[str, ...]) -> None:
    story = two_members(run, run_client, topic, *settings)
    everything = names(f"{topic}.1", 0, 1, 2) | names(f"{topic}.2", 0, 1, 2)
    told = events(story, "a")
    if settings == (CONSUMER,) and told[0] == ("assigned", set()):
        # The client was given its partitions before it knew their topics' names, which it asks for elsewhere.
        del told[0]
    assert told[0] == ("assigned", everything)
    revoked = [partitions for event, partitions in told if event == "revoked"]
    moved = set().union(*revoked)
    assert len(moved) == 3
    # Revoked is never called with nothing, and lost not at all.
    closing = [("b", "revoked", moved)]
    assert [each for each in story if each[0] == "b" and each[1] == "revoked"] == closing
    assert all(revoked)
    assert not [each for each in story if each[1] == "lost"]
    # A partition is given to its new owner after the old one has given it up.
    gained = [at for at, each in enumerate(story) if each[:2] == ("b", "assigned") and each[2]]
    given_up = [at for at, each in enumerate(story) if each[:2] == ("a", "revoked")]
    assert max(given_up) < max(gained)
    if settings[0] == COOPERATIVE:
        # Assigned is called at the end of every rebalance, even with nothing.
        assert ("assigned", set()) in told


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
    told = events(story, "slow")
    assert told[:2] == [("assigned", names(topic, 0, 1)), ("lost", names(topic, 0, 1))]
    assert ("revoked", set()) not in told


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
        # Nothing happened to the other member meanwhile.
        closed_at = next(at for at, each in enumerate(story) if each[:2] == ("b", "owns"))
        assert [each for each in story[closed_at + 1 :] if each[0] == "a" and each[1] != "owns"] == []
