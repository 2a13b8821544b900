"""`BranchedKStream`: a stream that is split by predicates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ottla.streams.dsl.handle import stateless
from ottla.streams.dsl.options import Branched
from ottla.streams.dsl.stream import KStream
from ottla.streams.operators.stateless import Branch, PassThrough

__all__ = ["BranchedKStream"]


class BranchedKStream:
    """Branches get the name of the split and their own name or number; the default branch has number 0."""

    def __init__(self, stream: KStream, named: str | None) -> None:
        self._stream = stream
        self._name = stream.graph.name(named, "KSTREAM-BRANCH-")
        self._predicates: list[Callable[[Any, Any], bool]] = []
        self._children: list[str] = []
        self._branches: dict[str, KStream] = {}
        self._node = stateless(self._name, functools.partial(Branch, self._predicates, self._children))
        stream.graph.add(stream.node, self._node)

    def branch(self, predicate: Callable[[Any, Any], bool], branched: Branched | None = None) -> BranchedKStream:
        self._predicates.append(predicate)
        self._add(branched or Branched(), len(self._predicates))
        return self

    def default_branch(self, branched: Branched | None = None) -> dict[str, KStream]:
        """Adds a branch for all other records, and returns the branches by name."""
        self._add(branched or Branched(), 0)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream]:
        return self._branches

    def _add(self, branched: Branched, number: int) -> None:
        name = f"{self._name}{number if branched.name is None else branched.name}"
        self._children.append(name)
        stream = self._stream
        stream.graph.new_name(name)
        node = stateless(name, PassThrough)
        stream.graph.add(self._node, node)
        branch = KStream(
            stream.graph,
            node,
            name,
            stream.sources,
            stream.key_serde,
            stream.value_serde,
            needs_repartition=stream.needs_repartition,
        )
        if branched.function is not None:
            result = branched.function(branch)
            if result is not None:
                self._branches[name] = result
        elif branched.consumer is not None:
            branched.consumer(branch)
        else:
            self._branches[name] = branch
