"""The iteration order of Java's hash and tree sets, which the text form of a topology shows.

Kafka Streams keeps the nodes of a description in hash maps, and their neighbours in tree sets whose order depends on
sizes that still grow while the sets are filled. The same text needs the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

__all__ = ["TreeSet", "hash_order"]


def hash_order(names: Iterable[str]) -> list[str]:
    """The order in which a HashSet of strings iterates after it was filled in the given order."""
    distinct = list(dict.fromkeys(names))
    buckets = 16
    while len(distinct) > buckets * 3 // 4:
        buckets *= 2
    return sorted(distinct, key=lambda name: _spread(_hash(name)) & (buckets - 1))


def _hash(text: str) -> int:
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def _spread(value: int) -> int:
    return value ^ (value >> 16)


class _Entry:
    __slots__ = ("is_red", "left", "name", "parent", "right")

    def __init__(self, name: str, parent: _Entry | None) -> None:
        self.name = name
        self.parent = parent
        self.left: _Entry | None = None
        self.right: _Entry | None = None
        self.is_red = True


class TreeSet:
    """A red-black tree that compares names only when they are added, with the comparator's answer of that moment."""

    def __init__(self, compare: Callable[[str, str], int]) -> None:
        self._compare = compare
        self._root: _Entry | None = None

    def add(self, name: str) -> None:
        entry, parent, order = self._root, None, 0
        while entry is not None:
            order = self._compare(name, entry.name)
            if order == 0:
                return
            parent, entry = entry, entry.left if order < 0 else entry.right
        new = _Entry(name, parent)
        if parent is None:
            self._root = new
        elif order < 0:
            parent.left = new
        else:
            parent.right = new
        self._balance(new)

    def __iter__(self) -> Iterator[str]:
        def walk(entry: _Entry | None) -> Iterator[str]:
            if entry is not None:
                yield from walk(entry.left)
                yield entry.name
                yield from walk(entry.right)

        return walk(self._root)

    def _balance(self, entry: _Entry) -> None:
        while entry.parent is not None and entry.parent.is_red:
            parent = entry.parent
            grandparent = parent.parent
            assert grandparent is not None
            is_left = parent is grandparent.left
            uncle = grandparent.right if is_left else grandparent.left
            if uncle is not None and uncle.is_red:
                parent.is_red = uncle.is_red = False
                grandparent.is_red = True
                entry = grandparent
                continue
            if entry is (parent.right if is_left else parent.left):
                self._rotate(parent, to_left=is_left)
                parent = entry
            parent.is_red, grandparent.is_red = False, True
            self._rotate(grandparent, to_left=not is_left)
            break
        assert self._root is not None
        self._root.is_red = False

    def _rotate(self, entry: _Entry, *, to_left: bool) -> None:
        child = entry.right if to_left else entry.left
        assert child is not None
        inner = child.left if to_left else child.right
        if to_left:
            entry.right, child.left = inner, entry
        else:
            entry.left, child.right = inner, entry
        if inner is not None:
            inner.parent = entry
        child.parent = entry.parent
        if entry.parent is None:
            self._root = child
        elif entry.parent.left is entry:
            entry.parent.left = child
        else:
            entry.parent.right = child
        entry.parent = child
