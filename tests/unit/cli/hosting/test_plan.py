"""The nodes of a machine, from one file."""

from __future__ import annotations

import pytest

from ottla.cli.hosting.plan import HostError, host_plan

FILE = {
    "process.roles": "broker,controller",
    "node.id": "100",
    "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://10.0.0.1:19092",
    "advertised.listeners": "PLAINTEXT://one:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "100@10.0.0.1:19092",
    "log.dirs": "/a,/b",
    "broker.rack": "east",
    "ottla.host.nodes": "3",
}


def test_ids_ports_and_directories_count_up() -> None:
    plan = host_plan(FILE, [0, 1])
    assert [node.node_id for node in plan.nodes] == [100, 101, 102]
    all_properties = [node.properties for node in plan.nodes]
    assert [properties["listeners"] for properties in all_properties] == [
        "PLAINTEXT://0.0.0.0:9092,CONTROLLER://10.0.0.1:19092",
        "PLAINTEXT://0.0.0.0:9093",
        "PLAINTEXT://0.0.0.0:9094",
    ]
    assert [properties["advertised.listeners"] for properties in all_properties] == [
        f"PLAINTEXT://one:{port}" for port in (9092, 9093, 9094)
    ]
    assert [properties["process.roles"] for properties in all_properties] == ["broker,controller", "broker", "broker"]
    assert all_properties[2]["log.dirs"] == "/a/node-102/data,/b/node-102/data"
    assert {properties["broker.rack"] for properties in all_properties} == {"east"}
    assert {properties["ottla.metrics.listener"] for properties in all_properties} == {"127.0.0.1:0"}
    assert not any(key.startswith("ottla.host.") for properties in all_properties for key in properties)
    assert [node.core for node in plan.nodes] == [None] * 3
    assert plan.metrics_listener == "127.0.0.1:9404"


def test_a_node_for_each_core_by_default_and_bound_to_it_if_wanted() -> None:
    file = {key: value for key, value in FILE.items() if key != "ottla.host.nodes"}
    plan = host_plan(file | {"ottla.host.cpu.affinity": "true"}, [2, 3, 6, 7])
    assert [node.core for node in plan.nodes] == [2, 3, 6, 7]


def test_ports_of_several_listeners_do_not_meet() -> None:
    plan = host_plan(FILE | {"listeners": "A://h:9092,B://h:9093,CONTROLLER://h:19092"}, [0])
    assert [node.properties["listeners"].partition(",CONTROLLER")[0] for node in plan.nodes] == [
        "A://h:9092,B://h:9093",
        "A://h:9094,B://h:9095",
        "A://h:9096,B://h:9097",
    ]


def test_what_is_meant_for_the_machine_is_divided() -> None:
    plan = host_plan(FILE | {"max.connections": "9000", "queued.max.request.bytes": "-1"}, [0])
    assert {node.properties["max.connections"] for node in plan.nodes} == {"3000"}
    assert {node.properties["queued.max.request.bytes"] for node in plan.nodes} == {"-1"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node.id": ""}, "needs node.id"),
        ({"log.dirs": ""}, "needs log.dirs"),
        ({"listeners": ""}, "needs listeners"),
        ({"listeners": "PLAINTEXT://h"}, "NAME://host:port"),
        ({"listeners": "P://h:65534"}, "meet each other"),
        ({"ottla.host.nodes": "many"}, "a number or auto"),
        ({"ottla.host.nodes": "0"}, "between 1 and 1024"),
        ({"ottla.host.cpu.affinity": "perhaps"}, "true or false"),
        ({"process.roles": "controller"}, "must have broker"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(change: dict[str, str], message: str) -> None:
    with pytest.raises(HostError, match=message):
        host_plan(FILE | change, [0])
