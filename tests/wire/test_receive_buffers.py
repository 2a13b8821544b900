from __future__ import annotations

from ottla.wire.connection.buffers import BUFFERS_MAX, LARGE_SIZE_MAX, LARGE_SIZE_MIN, LargeBuffers


def test_a_buffer_is_reused_when_no_view_of_it_is_left() -> None:
    buffers = LargeBuffers()
    first = buffers.take(100_000)
    identity = id(first)
    view = memoryview(first)[10:20]
    second = buffers.take(100_000)
    assert id(second) != identity
    assert len(second) == len(first)
    del first
    # A part of a part is enough to keep it away from others.
    part = view[2:4]
    view.release()
    assert id(buffers.take(100_000)) == id(second)
    part.release()
    assert id(buffers.take(100_000)) == identity


def test_a_larger_buffer_serves_a_smaller_frame_but_not_the_other_way_round() -> None:
    buffers = LargeBuffers()
    large = buffers.take(1_000_000)
    assert len(large) == 1 << 20
    assert buffers.take(70_000) is large
    assert len(buffers.take((1 << 20) + 1)) == 1 << 21


def test_small_and_huge_buffers_are_not_kept() -> None:
    buffers = LargeBuffers()
    for size in (1, LARGE_SIZE_MIN - 1, LARGE_SIZE_MAX + 1):
        assert len(buffers.take(size)) == size
    assert buffers._buffers == []


def test_the_number_of_kept_buffers_is_bounded() -> None:
    buffers = LargeBuffers()
    views = [memoryview(buffers.take(100_000)) for _ in range(3 * BUFFERS_MAX)]
    assert len(buffers._buffers) == BUFFERS_MAX
    assert len({id(view.obj) for view in views}) == len(views)
    buffers.clear()
    assert buffers._buffers == []


def test_the_number_may_be_smaller_still() -> None:
    buffers = LargeBuffers(buffers_max=2)
    views = [memoryview(buffers.take(100_000)) for _ in range(5)]
    assert len(buffers._buffers) == 2
    del views


def test_an_asking_end_keeps_larger_buffers_without_wasting_half_of_them() -> None:
    buffers = LargeBuffers(buffers_max=2, size_max=8 << 20)
    first = buffers.take((4 << 20) + 100)
    assert len(first) == 5 << 20
    assert buffers.take((4 << 20) + 200) is first
    assert len(buffers.take((8 << 20) + 1)) == (8 << 20) + 1
    assert len(buffers._buffers) == 1
