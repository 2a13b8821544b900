"""Every codec both ways, in pieces, cut, damaged and swollen."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.compression import Codec, DecompressionFailed, compress, decompress, decompressed_size_bound

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LIMIT = 1 << 24


@given(data=st.binary(max_size=5000), repeat=st.integers(min_value=0, max_value=60), codec=st.sampled_from(Codec))
@settings(max_examples=150, deadline=None)
def test_round_trip(data: bytes, repeat: int, codec: Codec) -> None:
    whole = data * repeat
    packed = compress(codec, whole)
    assert bytes(decompress(codec, packed, limit=len(whole))) == whole
    assert decompressed_size_bound(codec, packed) >= len(whole)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [0, 1, 32767, 32768, 32769, 65536, 131072, 131073, 700_001])
def test_block_boundaries(codec: Codec, size: int) -> None:
    for data in (bytes(size), bytes(range(256)) * (size // 256 + 1)):
        packed = compress(codec, data[:size])
        assert bytes(decompress(codec, memoryview(packed), limit=size)) == data[:size]


@pytest.mark.parametrize("codec", PACKED)
def test_streams_one_after_another(codec: Codec) -> None:
    packed = compress(codec, b"one" * 1000) + compress(codec, b"two" * 1000)
    assert bytes(decompress(codec, packed, limit=LIMIT)) == b"one" * 1000 + b"two" * 1000


@pytest.mark.parametrize("codec", PACKED)
def test_one_byte_above_the_limit_fails(codec: Codec) -> None:
    packed = compress(codec, bytes(200_000))
    assert len(decompress(codec, packed, limit=200_000)) == 200_000
    with pytest.raises(DecompressionFailed):
        decompress(codec, packed, limit=199_999)


@pytest.mark.parametrize("codec", PACKED)
def test_what_swells_is_known_before_it_does(codec: Codec) -> None:
    packed = compress(codec, bytes(3_000_000))
    assert len(packed) < 200_000
    assert decompressed_size_bound(codec, packed) >= 3_000_000
    assert decompressed_size_bound(codec, b"\x01\x02\x03\x04\x05\x06\x07\x08") < 10_000


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_the_bound_of_a_stream_with_very_many_frames_is_not_computed(codec: Codec) -> None:
    # Skippable frames without content.
    frame = b"\x50\x2a\x4d\x18" + bytes(4)
    assert decompressed_size_bound(codec, frame * 90) == 0
    assert decompressed_size_bound(codec, frame * 110) > 100_000
    packed = compress(codec, bytes(20_000_000))
    assert decompressed_size_bound(codec, packed) >= 20_000_000
    assert len(decompress(codec, packed, limit=20_000_000)) == 20_000_000


@pytest.mark.parametrize("codec", PACKED)
def test_every_cut_is_noticed(codec: Codec) -> None:
    packed = compress(codec, bytes(range(256)) * 300)
    for end in [1, 5, 8, 17, 20, len(packed) // 2, len(packed) - 5, len(packed) - 1]:
        with pytest.raises(DecompressionFailed):
            decompress(codec, packed[:end], limit=LIMIT)


@given(codec=st.sampled_from(PACKED), position=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255))
@settings(max_examples=300, deadline=None)
def test_damage_raises_one_error_or_gives_bounded_bytes(codec: Codec, position: int, flip: int) -> None:
    packed = bytearray(compress(codec, bytes(range(200)) * 20))
    packed[position % len(packed)] ^= flip
    with suppress(DecompressionFailed):
        assert len(decompress(codec, packed, limit=100_000)) <= 100_000


@given(codec=st.sampled_from(PACKED), data=st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_raise_one_error_or_give_bounded_bytes(codec: Codec, data: bytes) -> None:
    for source in (data, compress(codec, b"x" * 100) + data, compress(codec, b"x" * 100)[:10] + data):
        with suppress(DecompressionFailed):
            assert len(decompress(codec, source, limit=100_000)) <= 100_000


def test_raw_snappy_without_the_xerial_header() -> None:
    packed = bytes(cramjam.snappy.compress_raw(b"plain" * 100))
    assert bytes(decompress(Codec.SNAPPY, packed, limit=LIMIT)) == b"plain" * 100


def test_snappy_is_framed_as_the_java_library_does() -> None:
    packed = compress(Codec.SNAPPY, bytes(40_000))
    assert packed[:16] == bytes.fromhex("82534e4150505900 00000001 00000001")
    first = int.from_bytes(packed[16:20], "big")
    assert cramjam.snappy.decompress_raw_len(packed[20 : 20 + first]) == 32 * 1024


def test_lz4_blocks_are_independent() -> None:
    packed = compress(Codec.LZ4, bytes(300_000))
    assert packed[:4] == bytes.fromhex("04224d18")
    assert packed[4] & 0x20


@pytest.mark.parametrize("linked", [True, False])
def test_lz4_frames_of_others(linked: bool) -> None:
    frame = cramjam.lz4.Compressor(level=5, content_checksum=True, block_linked=linked)
    frame.compress(b"lorem ipsum " * 20_000)
    assert bytes(decompress(Codec.LZ4, bytes(frame.finish()), limit=LIMIT)) == b"lorem ipsum " * 20_000


def test_gzip_is_the_usual_stream() -> None:
    assert gzip.decompress(compress(Codec.GZIP, b"abc" * 100, 9)) == b"abc" * 100
    assert bytes(decompress(Codec.GZIP, gzip.compress(b"abc" * 100), limit=LIMIT)) == b"abc" * 100


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, [-1, 1, 9]), (Codec.LZ4, [1, 9, 17]), (Codec.ZSTD, [-100, 1, 3, 22])]
)
def test_levels_of_kafkas_own_scale(codec: Codec, levels: list[int]) -> None:
    data = bytes(range(256)) * 200
    for level in levels:
        assert bytes(decompress(codec, compress(codec, data, level), limit=LIMIT)) == data


def test_lz4_default_level_is_the_fast_one() -> None:
    data = b"".join(b"%d," % (number * number) for number in range(20_000))
    assert compress(Codec.LZ4, data, 9) == compress(Codec.LZ4, data)
    assert len(compress(Codec.LZ4, data, 12)) < len(compress(Codec.LZ4, data))


def test_a_bomb_allocates_no_more_than_the_limit() -> None:
    # Kilobytes that claim gigabytes: the buffer is the limit, whatever the frame says.
    for codec in PACKED:
        packed = compress(codec, bytes(1 << 22)) * 50
        with pytest.raises(DecompressionFailed):
            decompress(codec, packed, limit=1 << 20)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_more_than_one_portion(codec: Codec) -> None:
    """Large outputs are written in portions of 1 MiB, and into mapped memory."""
    data = b"0123456789" * 250_000
    compressed = compress(codec, data)
    assert decompress(codec, compressed, limit=len(data)) == data
    with pytest.raises(DecompressionFailed):
        decompress(codec, compressed, limit=len(data) - 1)
    with pytest.raises(DecompressionFailed):
        decompress(codec, compressed[:-20], limit=len(data))


def test_a_gzip_stream_of_many_members_is_read_member_by_member() -> None:
    """zlib copies the input behind the end of each member: it must not get all of it again for every member."""
    seen: list[int] = []
    original = zlib.decompressobj

    class Counted:
        def __init__(self, wbits: int) -> None:
            self._member = original(wbits=wbits)

        def decompress(self, source: bytes, size_max: int) -> bytes:
            seen.append(len(source))
            return self._member.decompress(source, size_max)

        def __getattr__(self, name: str) -> object:
            return getattr(self._member, name)

    members = 2_000
    stream = compress(Codec.GZIP, b"x") * members
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zlib, "decompressobj", Counted)
        assert decompress(Codec.GZIP, stream, limit=members) == b"x" * members
    assert len(stream) > 40_000
    assert max(seen) <= 16 * 1024
