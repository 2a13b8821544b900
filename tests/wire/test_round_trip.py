"""Every message in every version survives being encoded and decoded."""

from __future__ import annotations

from random import Random

import pytest

from ottla.wire.codec import decode, encode
from ottla.wire.message import Message
from tests.wire.values import MESSAGES, message_at, versions_of


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_decoding_gives_back_what_was_encoded(cls: type[Message]) -> None:
    for version in versions_of(cls):
        random = Random(f"{cls.__name__} {version}")
        for message in [cls(), *(message_at(cls, version, random) for _ in range(6))]:
            encoded = encode(message, version)
            decoded, end = decode(cls, memoryview(encoded), version)
            assert end == len(encoded)
            # A tagged structure that equals its default is not sent, so the second encoding is what can be compared.
            assert encode(decoded, version) == encoded
