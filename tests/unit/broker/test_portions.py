"""Long requests in portions: the answers are those of the whole request, and no turn of the loop takes long."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import portions
from ottla.broker.apis import CONTROLLER_HANDLERS, HANDLERS, HandlerSpec, load, metadata
from ottla.broker.authorization import AllowAll
from ottla.broker.route import Route
from ottla.model.errors import ErrorCode
from ottla.model.slices import Admission
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.lone_node import Answer, frame_of
from tests.unit.broker.test_growth import Case, World, cases, filled

ELEMENTS = 25
PORTION = 4


class DenyAll(AllowAll):
    def authorize_softly(self, *_: object) -> bool:
        return False


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def portioned_cases() -> Iterator[Case]:
    for case in cases():
        table = CONTROLLER_HANDLERS if case.at_controller else HANDLERS
        api = load(case.api_key, table[case.api_key])
        if any(
            case.path[: len(cut.request)] == cut.request[: len(case.path)] and not cut.refuses_only
            for cut in api.portions
        ):
            yield case


def send(world: World, case: Case, frame: bytes, *, size: int | None) -> Answer:
    """Sends the frame as a whole, or in portions of this size."""
    table = CONTROLLER_HANDLERS if case.at_controller else HANDLERS
    api = load(case.api_key, table[case.api_key])
    if size is not None:
        api = api.replaced(portions=tuple(cut.replaced(size=size) for cut in api.portions))
    broker = world.node.broker
    route = Route(case.api_key, case.version, api, broker.statistics, broker.world.clock.monotonic)
    route.sliced_bytes_min = 0 if size is not None else 1 << 31
    with world.node.with_route(route, at_controller=case.at_controller):
        return world.node.send(frame, at_controller=case.at_controller)


@pytest.mark.parametrize("case", list(portioned_cases()), ids=str)
def test_portions_are_answered_as_the_whole_request(world: World, case: Case) -> None:
    spec = API_SPECS[ApiKey(case.api_key)]
    frame = frame_of(
        case.api_key, case.version, filled(spec.request_class, case, ELEMENTS, world.known, kind="different")
    )
    whole, cut = (send(world, case, frame, size=size) for size in (None, PORTION))
    assert whole.body is not None
    assert cut.body is not None
    answers = [decode(spec.response_class, memoryview(answer.body or b""), case.version) for answer in (whole, cut)]
    assert answers[0] == answers[1]
    assert answers[0][1] == len(whole.body) == len(cut.body)
    assert cut.turns > whole.turns
    assert world.node.findings == []


def ask(world: World, api_key: int, version: int, request: Any) -> tuple[Any, Answer]:
    answer = world.node.send(frame_of(api_key, version, request))
    assert answer.body is not None, answer.close_reason
    return decode(API_SPECS[ApiKey(api_key)].response_class, memoryview(answer.body), version)[0], answer


def test_an_answer_beyond_its_budget_is_refused_from_there_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "ANSWER_BYTES_MAX", 200_000)
    resources = [DescribeConfigsResource(resource_type=4, resource_name="1") for _ in range(1_000)]
    response, answer = ask(world, 32, 4, DescribeConfigsRequest(resources=resources, include_documentation=True))
    codes = [result.error_code for result in response.results]
    assert len(codes) == 1_000
    answered = codes.count(ErrorCode.NONE)
    assert 0 < answered < 1_000
    assert codes == [ErrorCode.NONE] * answered + [ErrorCode.POLICY_VIOLATION] * (1_000 - answered)
    assert len(answer.body or b"") < 2_000_000


def test_a_request_with_too_many_elements_changes_nothing(world: World) -> None:
    updates = [FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)] * 2_000
    response, _ = ask(world, 57, 2, UpdateFeaturesRequest(feature_updates=updates))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert "more than 1000 elements" in response.error_message


def test_a_filter_with_too_many_values_is_refused(world: World) -> None:
    response, answer = ask(world, 16, 5, ListGroupsRequest(states_filter=["Empty"] * 100_000))
    assert (response.error_code, response.groups) == (ErrorCode.INVALID_REQUEST, [])
    assert answer.turns > 20


def test_all_topics_come_in_portions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, at_once = ask(world, 3, 12, MetadataRequest(topics=None))
    small = tuple(cut.replaced(size=1) for cut in metadata.API.portions)
    monkeypatch.setattr(metadata, "API", metadata.API.replaced(portions=small))
    monkeypatch.setattr(metadata, "ALL_TOPICS_PER_TURN", 1)
    cut, later = ask(world, 3, 12, MetadataRequest(topics=None))
    assert len(whole.topics) > 1
    assert cut == whole
    assert later.turns > at_once.turns


@pytest.mark.parametrize("version", [0, 12])
def test_a_client_that_may_describe_none_of_many_topics(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """In version 0 an empty list of topics means all topics, so that it must not stand for none of them."""
    world = World()
    world.node.authorize_with(DenyAll())
    monkeypatch.setattr(metadata, "ALL_TOPICS_PER_TURN", 0)
    response, _ = ask(world, 3, version, MetadataRequest(topics=[] if version == 0 else None))
    assert response.topics == []
    assert len(response.brokers) == 1


def test_a_long_request_takes_turns_with_others(world: World) -> None:
    names = [f"g{number}" for number in range(20_000)]
    _, answer = ask(world, 15, 6, DescribeGroupsRequest(groups=names))
    # A turn of 50 groups, and one for their bytes.
    assert answer.turns >= 2 * 20_000 // 50
    assert answer.blocked_seconds < answer.cpu_seconds / 10


def test_unknown_topics_are_answered_in_their_order(world: World) -> None:
    topics = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(300)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    response, _ = ask(world, 3, 12, request)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 300


def test_portions_shrink_while_they_take_long(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node at which every reading of the clock is 5 ms after the last one, so that all portions seem to take long."""
    request = DescribeGroupsRequest(groups=[f"g{number}" for number in range(64)])
    _, fast = ask(world, 15, 6, request)
    readings = count()
    clock = world.node.broker.world.clock
    monkeypatch.setattr(type(clock), "monotonic", lambda _: next(readings) * 0.009)
    response, slow = ask(world, 15, 6, request)
    assert [group.group_id for group in response.groups] == request.groups
    # Two turns for each portion: one element at a time, or 1, 2, 4, ... of them.
    assert fast.turns < 20
    assert slow.turns > 2 * 64


def test_pieces_of_an_element_are_in_different_portions_while_portions_grow() -> None:
    size = portions.PortionSize(3, 100)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=list(range(10)))])
    cuts = []
    for portion, continues in portions.cut(request, ("groups", "topics"), size):
        cuts.append(([group.topics for group in portion.groups], continues))
        size.adapt(0.0)
    assert cuts == [([[0, 1]], False), *[([[at, at + 1]], True) for at in (2, 4, 6, 8)]]


def test_repeated_groups_with_all_offsets_have_portions_of_their_own(world: World) -> None:
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    single, _ = ask(world, 9, 9, OffsetFetchRequest(groups=[group]))
    repeated, answer = ask(world, 9, 9, OffsetFetchRequest(groups=[group] * 20))
    assert repeated.groups == single.groups * 20
    assert answer.turns > 20


def test_the_rest_of_a_request_is_dropped_when_its_client_has_gone(world: World) -> None:
    frame = frame_of(15, 6, DescribeGroupsRequest(groups=[f"g{number}" for number in range(5_000)]))
    whole = world.node.send(frame)
    abandoned = world.node.send(frame, gone_after_turns=whole.turns // 2)
    assert (abandoned.body, abandoned.close_reason) == (
        None,
        "the client has gone before all of its request was handled",
    )
    early = world.node.send(frame, gone_after_turns=1)
    assert early.close_reason == "the client has gone before its request was answered"
    assert early.turns < abandoned.turns < whole.turns


def test_only_some_large_requests_are_decoded_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.sliced_requests.LARGE_BYTES_MIN", 1_000)
    few, many = Admission(1), Admission(8)
    frame = frame_of(15, 6, DescribeGroupsRequest(groups=[f"g{number}" for number in range(1_000)]))
    first_answered: dict[Admission, int] = {}
    for admission in (few, many):
        world.node.broker.large_requests = admission
        first_answered[admission] = world.node.send_at_once([frame] * 8)
    # With one at a time the first is answered before the others take turns; otherwise all take turns with each other.
    assert 4 * first_answered[few] < first_answered[many]


def documented_row(api_key: int, handler: HandlerSpec) -> str:
    api = load(api_key, handler)
    name = "Fetch from a controller" if handler.module == "fetch_metadata_log" else API_SPECS[ApiKey(api_key)].name
    sizes = {cut.size for cut in api.portions if not cut.refuses_only}
    portion = f"{min(sizes):,}" if sizes else "as a whole"
    if api.elements_max is None:
        return f"| {name} | {portion} |  |  |"
    is_answered = bool(api.portions) or hasattr(api.response, "error_code")
    beyond = api.refusal.name if is_answered else "the connection is closed"
    return f"| {name} | {portion} | {api.elements_max:,} | {beyond} |"


def test_the_limits_are_documented() -> None:
    documented = (Path(__file__).parents[3] / "docs" / "limits.md").read_text().splitlines()
    for table in (HANDLERS, CONTROLLER_HANDLERS):
        for api_key, handler in table.items():
            api = load(api_key, handler)
            if api.portions or api.elements_max is not None:
                assert documented_row(api_key, handler) in documented


def test_every_array_of_a_request_is_bounded() -> None:
    """By portions or a limit; Fetch and Produce have slices of their own."""
    for case in cases():
        table = CONTROLLER_HANDLERS if case.at_controller else HANDLERS
        api = load(case.api_key, table[case.api_key])
        is_cut = any(case.path == cut.request[: len(case.path)] for cut in api.portions)
        is_bounded_by_itself = not case.at_controller and case.api_key in (0, 1)
        assert is_cut or api.elements_max is not None or is_bounded_by_itself, str(case)
