"""Pictures of topologies: valid SVG in which every node, topic and store has its place."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from examples.streams.word_count import build as word_count
from ottla.streams.topology.topology import SinkNode
from tests.streams.cases import CaseBuilder
from tests.streams.generate import OPERATORS, make_case

SVG = "{http://www.w3.org/2000/svg}"


def titles(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [title.text or "" for title in root.iter(f"{SVG}title")]


def test_a_picture_has_topics_processors_and_stores() -> None:
    texts = titles(word_count("lines", "<counts>").to_svg())
    assert {"lines", "<counts>", "CountStore", "CountStore-repartition", "KSTREAM-AGGREGATE"} <= set(texts)
    # Written by one sub-topology and read by another.
    assert texts.count("CountStore-repartition") == 2


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_topology_can_be_drawn_and_no_boxes_overlap(operator: str) -> None:
    case = make_case(operator, 1)
    topology = CaseBuilder().build(case["topology"], {"application.id": "drawn"})
    root = ElementTree.fromstring(topology.to_svg())
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    boxes = [
        tuple(float(box.get(name, 0)) for name in ("x", "y", "width", "height"))
        for group in root.iter(f"{SVG}g")
        for box in group.iter(f"{SVG}rect")
    ]
    sinks = sum(isinstance(node, SinkNode) for node in topology.nodes.values())
    assert len(boxes) >= len(topology.nodes) + sinks
    for index, (x, y, wide, high) in enumerate(boxes):
        assert 0 <= x <= width - wide
        assert 0 <= y <= height - high
        assert not any(abs(x - a) < wide and abs(y - b) < high for a, b, _, _ in boxes[:index])
