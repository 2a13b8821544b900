"""The map that images are made of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.persistent import PersistentMap

operations = st.lists(st.tuples(st.integers(0, 200), st.one_of(st.none(), st.integers())), max_size=50)


@given(st.lists(operations, max_size=5))
def test_each_version_is_what_a_dict_would_be_and_stays_so(rounds: list[list[tuple[int, int | None]]]) -> None:
    current: PersistentMap[int, int] = PersistentMap()
    twin: dict[int, int] = {}
    versions = [(current, dict(twin))]
    for changes in rounds:
        builder = current.builder()
        for key, value in changes:
            if value is not None:
                builder[key] = twin[key] = value
            elif builder.get(key) is not None:
                builder.remove(key)
                del twin[key]
        current = builder.build()
        versions.append((current, dict(twin)))
    for version, expected in versions:
        assert version == expected
        assert len(version) == len(expected)
        assert all(version[key] == value and key in version for key, value in expected.items())
        assert version.get(999) is None


def test_a_change_shares_what_it_does_not_touch() -> None:
    builder = PersistentMap[int, int]().builder()
    for key in range(1000):
        builder[key] = key
    before = builder.build()
    changed = before.builder()
    changed[5] = -5
    after = changed.build()
    shared = sum(old is new for old, new in zip(before._shards, after._shards, strict=True))
    assert shared == len(before._shards) - 1
    assert (before[5], after[5]) == (5, -5)
