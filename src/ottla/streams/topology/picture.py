"""A topology as a picture: `topology_svg` draws sub-topologies side by side, with topics, processors and stores."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from ottla.streams.topology.topology import ProcessorNode, SinkNode, SourceNode, Topology

__all__ = ["topology_svg"]

_WIDTH, _HEIGHT = 208, 44
_GAP_X, _GAP_Y = 28, 34
_MARGIN, _TITLE = 24, 34
_TEXT_MAX = 25

_STYLE = """
svg { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 12px; }
.ground { fill: #ffffff; } .group { fill: #f6f8fa; stroke: #d0d7de; } .title { fill: #57606a; font-weight: 600; }
.name { fill: #1f2328; text-anchor: middle; } .small { fill: #57606a; font-size: 10px; text-anchor: middle; }
.processor { fill: #ffffff; stroke: #8c959f; } .end { fill: #ddf4ff; stroke: #54aeff; }
.topic { fill: #fff8c5; stroke: #d4a72c; } .internal { fill: #fbefff; stroke: #c297ff; }
.store { fill: #dafbe1; stroke: #4ac26b; } .line { fill: none; stroke: #6e7781; }
.uses { fill: none; stroke: #4ac26b; stroke-dasharray: 4 3; }
""".strip()


class _Box(NamedTuple):
    x: float
    y: float

    @property
    def middle(self) -> float:
        return self.x + _WIDTH / 2


def topology_svg(topology: Topology) -> str:
    """The picture as a text of SVG. Solid lines are the ways of records; dashed lines join processors and stores."""
    parts: list[str] = []
    x, height = float(_MARGIN), 0.0
    for number, names in topology.node_groups().items():
        group = _Group(topology, names)
        title = f"Global stores {number}" if topology.is_global(names) else f"Sub-topology {number}"
        parts.append(group.draw(x, float(_MARGIN), title))
        x += group.width + _MARGIN
        height = max(height, group.height)
    width, height = max(x, 2 * _MARGIN + _WIDTH), height + 2 * _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="topology">',
            f"<style>{_STYLE}</style>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#6e7781"/></marker></defs>',
            f'<rect class="ground" width="{width:g}" height="{height:g}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


class _Group:
    """The layout of a sub-topology: topics, then nodes in layers, every node below all of its predecessors."""

    def __init__(self, topology: Topology, names: list[str]) -> None:
        self._topology = topology
        self._names = [name for name in topology.nodes if name in set(names)]
        self._rows = self._layers()
        self._stores = self._used_stores()
        self._columns = max(len(row) for row in self._rows)
        self.width = self._columns * (_WIDTH + _GAP_X) + _GAP_X + (_WIDTH + _GAP_X if self._stores else 0)
        self.height: float = _TITLE + len(self._rows) * (_HEIGHT + _GAP_Y)

    def draw(self, x: float, y: float, title: str) -> str:
        boxes = self._places(x, y)
        stores = self._store_places(x, boxes)
        parts = [
            f'<rect class="group" x="{x:g}" y="{y:g}" width="{self.width:g}" height="{self.height:g}" rx="8"/>',
            f'<text class="title" x="{x + 14:g}" y="{y + 22:g}">{escape(title)}</text>',
        ]
        for before, after in self._lines():
            parts.append(_line(boxes[before], boxes[after]))
        for name in self._names:
            node = self._topology.nodes[name]
            used = node.stores if isinstance(node, ProcessorNode) else ()
            parts += [_dashed(boxes[name], stores[store]) for store in used if store in stores]
        parts += [self._box(box_name, box) for box_name, box in boxes.items()]
        parts += [_cylinder(store, box, self._note(store)) for store, box in stores.items()]
        return "\n".join(parts)

    # Layout. Topics are written with their direction in front: "in:" and "out:".

    def _layers(self) -> list[list[str]]:
        depth: dict[str, int] = {}
        for name in self._names:
            before = self._topology.nodes[name].predecessors
            depth[name] = 1 + max((depth[parent] for parent in before if parent in depth), default=0)
        rows: dict[int, list[str]] = {}
        for name, level in depth.items():
            node = self._topology.nodes[name]
            rows.setdefault(level, []).append(name)
            if isinstance(node, SourceNode):
                rows.setdefault(0, []).extend(f"in:{topic}" for topic in _topics(node))
            elif isinstance(node, SinkNode):
                rows.setdefault(level + 1, []).append(f"out:{name}")
        return [list(dict.fromkeys(rows[level])) for level in sorted(rows)]

    def _places(self, x: float, y: float) -> dict[str, _Box]:
        boxes: dict[str, _Box] = {}
        before: dict[str, list[str]] = {}
        for origin, after in self._lines():
            before.setdefault(after, []).append(origin)

        def wish(box_name: str) -> float:
            known = [boxes[parent].x for parent in before.get(box_name, ()) if parent in boxes]
            return sum(known) / len(known) if known else x

        for level, row in enumerate(self._rows):
            ordered = sorted(row, key=wish)
            # As close to the predecessors as the row allows.
            start = x + _GAP_X
            room = (self._columns - len(ordered)) * (_WIDTH + _GAP_X)
            for index, box_name in enumerate(ordered):
                lowest = start + index * (_WIDTH + _GAP_X)
                if index:
                    lowest = max(lowest, boxes[ordered[index - 1]].x + _WIDTH + _GAP_X)
                highest = start + index * (_WIDTH + _GAP_X) + room
                boxes[box_name] = _Box(
                    min(max(lowest, wish(box_name)), highest), y + _TITLE + level * (_HEIGHT + _GAP_Y)
                )
        return boxes

    def _lines(self) -> Iterable[tuple[str, str]]:
        for name in self._names:
            node = self._topology.nodes[name]
            if isinstance(node, SourceNode):
                yield from ((f"in:{topic}", name) for topic in _topics(node))
            for parent in dict.fromkeys(node.predecessors):
                yield parent, name
            if isinstance(node, SinkNode):
                yield name, f"out:{name}"

    def _used_stores(self) -> dict[str, str]:
        """Store -> the first node that uses it."""
        first_users: dict[str, str] = {}
        for name in self._names:
            node = self._topology.nodes[name]
            for store in node.stores if isinstance(node, ProcessorNode) else ():
                first_users.setdefault(store, name)
        return first_users

    def _store_places(self, x: float, boxes: dict[str, _Box]) -> dict[str, _Box]:
        left = x + self.width - _WIDTH - _GAP_X
        places: dict[str, _Box] = {}
        lowest = 0.0
        for store, name in sorted(self._stores.items(), key=lambda store_and_node: boxes[store_and_node[1]].y):
            top = max(boxes[name].y, lowest)
            places[store] = _Box(left, top)
            lowest = top + _HEIGHT + 12
        if places:
            bottom = max(box.y for box in places.values()) + _HEIGHT + _GAP_Y
            first = min(box.y for box in boxes.values()) - _TITLE
            self.height = max(self.height, bottom - first)
        return places

    def _note(self, store: str) -> str:
        specification = self._topology.stores.get(store) or self._topology.global_stores.get(store)
        return "" if specification is None else f"{specification.kind.value} store"

    def _box(self, box_name: str, box: _Box) -> str:
        if box_name.startswith("in:"):
            return self._topic(box_name[3:], box)
        if box_name.startswith("out:"):
            sink = self._topology.nodes[box_name[4:]]
            assert isinstance(sink, SinkNode)
            return self._topic(sink.topic if isinstance(sink.topic, str) else "chosen for each record", box)
        node = self._topology.nodes[box_name]
        kind = "processor" if isinstance(node, ProcessorNode) else "end"
        name, _, number = box_name.rpartition("-")
        first, second = (name, number) if number.isdigit() and len(number) == 10 else (box_name, "")
        if not second:
            second = "source" if isinstance(node, SourceNode) else "sink" if isinstance(node, SinkNode) else ""
        return _rectangle(kind, box, first, second, radius=6)

    def _topic(self, topic: str, box: _Box) -> str:
        is_internal = topic in self._topology.internal_topics
        kind = "internal" if is_internal else "topic"
        return _rectangle(kind, box, topic, "repartition topic" if is_internal else "topic", radius=_HEIGHT / 2)


def _topics(node: SourceNode) -> list[str]:
    return list(node.topics) if node.pattern is None else [f"/{node.pattern.pattern}/"]


def _rectangle(kind: str, box: _Box, first: str, second: str, *, radius: float) -> str:
    return (
        f'<g><title>{escape(first)}</title><rect class="{kind}" x="{box.x:g}" y="{box.y:g}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" rx="{radius:g}"/>{_text(box, first, second)}</g>'
    )


def _cylinder(store: str, box: _Box, note: str) -> str:
    left, right, top, bottom = box.x, box.x + _WIDTH, box.y + 5, box.y + _HEIGHT - 5
    arc = f"{_WIDTH / 2:g} 5 0 0"
    rim = f"M{left:g} {top:g}A{arc} 0 {right:g} {top:g}"
    return (
        f'<g><title>{escape(store)}</title><path class="store" d="M{left:g} {top:g}A{arc} 1 {right:g} {top:g}'
        f'V{bottom:g}A{arc} 1 {left:g} {bottom:g}Z"/><path class="store" d="{rim}"/>'
        f"{_text(box, store, note, down=3)}</g>"
    )


def _text(box: _Box, first: str, second: str, *, down: float = 0) -> str:
    shown = first if len(first) <= _TEXT_MAX else f"{first[: _TEXT_MAX - 12]}…{first[-11:]}"
    y = box.y + (19 if second else 26) + down
    text = f'<text class="name" x="{box.middle:g}" y="{y:g}">{escape(shown)}</text>'
    if second:
        text += f'<text class="small" x="{box.middle:g}" y="{y + 15:g}">{escape(second)}</text>'
    return text


def _line(before: _Box, after: _Box) -> str:
    top, bottom = before.y + _HEIGHT, after.y
    half = (bottom - top) / 2
    return (
        f'<path class="line" marker-end="url(#arrow)" d="M{before.middle:g} {top:g}C{before.middle:g} {top + half:g} '
        f'{after.middle:g} {bottom - half:g} {after.middle:g} {bottom:g}"/>'
    )


def _dashed(node: _Box, store: _Box) -> str:
    left, right = node.x + _WIDTH, store.x
    y, end = node.y + _HEIGHT / 2, store.y + _HEIGHT / 2
    half = (right - left) / 2
    return f'<path class="uses" d="M{left:g} {y:g}C{left + half:g} {y:g} {right - half:g} {end:g} {right:g} {end:g}"/>'
