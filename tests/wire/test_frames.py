"""Frames cut out of a byte stream, however its bytes arrive."""

from __future__ import annotations

import struct
from mmap import mmap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.connection import frames as module
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.frames import FrameReader, FrameSizeError


def reader_of(*, buffers: ReceiveBuffers | None = None, is_trusted: bool = False, size_max: int = 10**8) -> FrameReader:
    return FrameReader(buffers or ReceiveBuffers(), size_min=1, size_max=size_max, is_trusted=is_trusted)


def receive(reader: FrameReader, data: bytes) -> int:
    """One read of a socket that has `data`; returns the number of bytes that were read."""
    received = 0
    for target in reader.targets():
        piece = data[received : received + len(target)]
        target[: len(piece)] = piece
        received += len(piece)
    reader.received(received)
    return received


def receive_frame(reader: FrameReader, data: bytes) -> memoryview:
    """Several reads, as a driver does them; `data` is one frame."""
    frame = None
    while data:
        assert frame is None
        data = data[receive(reader, data) :]
        frame = reader.next_frame()
        reader.retain()
    assert frame is not None
    return frame


def sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


# Around every size at which the reader behaves differently.
SIZES = st.sampled_from([1, 3, 100, 32_767, 32_768, 65_535, 65_536, 65_537, 300_000, 1_048_577, 2_500_000])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(SIZES, min_size=1, max_size=6),
    st.lists(st.integers(1, 200_000), min_size=1, max_size=20),
    st.booleans(),
    st.lists(st.booleans(), min_size=1, max_size=10),
)
def test_frames_arrive_whole_however_the_stream_is_cut(
    sizes: list[int], cuts: list[int], is_trusted: bool, pauses: list[bool]
) -> None:
    """Two connections share their buffers, take turns, and sometimes stop in the middle of what was received."""
    buffers = ReceiveBuffers()
    expected = [[bytes([(number + 7 * side) % 251]) * size for number, size in enumerate(sizes)] for side in range(2)]
    streams = [b"".join(map(sized, frames)) for frames in expected]
    readers = [reader_of(buffers=buffers, is_trusted=is_trusted) for _ in range(2)]
    taken: list[list[memoryview]] = [[], []]
    positions = [0, 0]
    is_drained = [True, True]
    turn = 0
    while any(positions[side] < len(streams[side]) or len(taken[side]) < len(sizes) for side in range(2)):
        side, turn = turn % 2, turn + 1
        reader, stream = readers[side], streams[side]
        is_paused = pauses[turn % len(pauses)]
        if is_drained[side]:
            available = stream[positions[side] : positions[side] + cuts[turn % len(cuts)]]
            positions[side] += receive(reader, available)
        while (frame := reader.next_frame()) is not None:
            taken[side].append(frame)
            if is_paused:
                break
        # A connection that is paused reads again when everything that it had received is taken.
        is_drained[side] = frame is None
        reader.retain()
    assert [[bytes(frame) for frame in frames] for frames in taken] == expected


def test_a_large_frame_after_a_large_one_is_received_in_place() -> None:
    reader = reader_of()
    size = 100_000
    for data in (bytes(size), b"x" * size):
        assert receive_frame(reader, sized(data)) == data
    assert receive(reader, sized(bytes(size))) == 4, "only the size of the next frame is asked for"
    assert reader.next_frame() is None
    assert reader.has_begun_frame
    frame_target, beginning_of_next = reader.targets()
    assert (len(frame_target), len(beginning_of_next)) == (size, 4)


def test_the_buffer_of_a_frame_is_used_again_when_the_frame_is_gone() -> None:
    buffers = ReceiveBuffers()
    reader = reader_of(buffers=buffers, is_trusted=True)
    addresses = set()
    for _ in range(5):
        frame = receive_frame(reader, sized(bytes(100_000)))
        addresses.add(id(frame.obj))
        del frame
    assert len(addresses) == 1


@pytest.mark.parametrize("size", [-1, 0, 1001, 2**31 - 1])
def test_an_impossible_size_is_refused_before_memory_is_allocated(size: int) -> None:
    reader = reader_of(size_max=1000)
    receive(reader, struct.pack(">i", size))
    with pytest.raises(FrameSizeError) as refused:
        reader.next_frame()
    assert refused.value.size == size


def test_memory_grows_with_the_bytes_that_arrive() -> None:
    reader = reader_of()
    receive(reader, struct.pack(">i", 90_000_000) + b"beginning")
    assert reader.next_frame() is None
    allocated = len(reader.targets()[0]) + len(b"beginning")
    assert allocated == module.FRAME_ALLOCATION_UNPROVEN
    received = len(b"beginning")
    while received < 5_000_000:
        received += receive(reader, bytes(300_000))
        assert received + len(reader.targets()[0]) <= max(2 * received, module.FRAME_ALLOCATION_FIRST)


def test_a_frame_that_grows_is_copied_once() -> None:
    reader = reader_of()
    data = bytes(range(256)) * 40_000
    frame = receive_frame(reader, sized(data))
    assert frame == data
    assert not frame.readonly
    assert type(frame.obj) is mmap, "the buffer was reserved as a whole"
    receive(reader, sized(data)[:4])
    assert reader.next_frame() is None
    buffers = set()
    unsent = data
    while unsent:
        unsent = unsent[receive(reader, unsent) :]
        if reader._whole is not None:
            buffers.add(id(reader._whole.obj))
    assert len(buffers) == 1
    assert reader.next_frame() == data
