"""Encrypting serializers: the encoded bytes, and the keys that decrypt them."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from ottla.encryption import DataKeys, DecryptingDeserializer, EncryptingSerializer, FileKeyService, KeyServiceError
from ottla.encryption.envelope import is_envelope, seal
from ottla.encryption.file_keys import Key, KeyFile
from ottla.encryption.reencryption import Reencryption
from ottla.serdes import BytesDeserializer, BytesSerializer, JsonDeserializer, JsonSerializer
from ottla.serdes.protocol import Header, SerializationError
from ottla.serdes.registry_client import is_registry_failure


class CountingService:
    """Prepends the key's name to the data key, and counts the calls."""

    def __init__(self) -> None:
        self.wrapped = self.unwrapped = 0

    def wrap(self, key_name: str, data_key: bytes) -> bytes:
        self.wrapped += 1
        return key_name.encode() + b"|" + data_key

    def unwrap(self, key_name: str, wrapped_key: bytes) -> bytes:
        self.unwrapped += 1
        if not wrapped_key.startswith(key_name.encode() + b"|"):
            raise KeyServiceError("wrong key")
        return wrapped_key.partition(b"|")[2]

    def close(self) -> None:
        pass


@pytest.fixture
def key_file(tmp_path: Path) -> KeyFile:
    keys = KeyFile(str(tmp_path / "keys.json"))
    keys.create("orders")
    return keys


def pair(path: str, **settings: str) -> tuple[EncryptingSerializer[bytes], DecryptingDeserializer[bytes]]:
    config = {"encryption.key.file": path, "encryption.key.name": "orders"}
    config |= {f"encryption.{name.replace('_', '.')}": text for name, text in settings.items()}
    serializer, deserializer = EncryptingSerializer(BytesSerializer()), DecryptingDeserializer(BytesDeserializer())
    serializer.configure(config, is_key=False)
    deserializer.configure(config, is_key=False)
    return serializer, deserializer


SERVICE = CountingService()


@given(st.binary(), st.text(max_size=20))
def test_every_value_comes_back(value: bytes, topic: str) -> None:
    keys = DataKeys(SERVICE)
    sealed = EncryptingSerializer(BytesSerializer(), keys=keys, key_name="k").serialize(topic, value)
    assert sealed is not None
    assert is_envelope(sealed)
    assert DecryptingDeserializer(BytesDeserializer(), keys=keys).deserialize(topic, sealed) == value


def test_the_bytes_hold_neither_the_value_nor_the_keys(key_file: KeyFile) -> None:
    serializer, deserializer = pair(key_file.path, headers="card")
    headers: list[Header] = [("card", b"4111 1111"), ("trace", b"t-1"), ("card", None)]
    sealed = serializer.serialize("orders", b"one espresso", headers)
    assert sealed is not None
    assert b"espresso" not in sealed
    assert headers[1:] == [("trace", b"t-1"), ("card", None)]
    assert b"4111" not in (headers[0][1] or b"")
    secret = key_file.read()["orders"].versions[1]
    assert secret not in sealed
    assert serializer.serialize("orders", b"one espresso") != sealed
    assert deserializer.deserialize("orders", memoryview(sealed), headers) == b"one espresso"
    assert headers == [("card", b"4111 1111"), ("trace", b"t-1"), ("card", None)]


def test_it_wraps_any_other_pair(key_file: KeyFile) -> None:
    keys = DataKeys(FileKeyService(key_file.path))
    serializer = EncryptingSerializer(JsonSerializer(), keys=keys, key_name="orders")
    sealed = serializer.serialize("orders", {"drink": "espresso"})
    deserializer = DecryptingDeserializer(JsonDeserializer(), keys=keys)
    assert deserializer.deserialize("orders", sealed) == {"drink": "espresso"}
    assert serializer.serialize("orders", None) is None
    assert deserializer.deserialize("orders", None) is None


def test_any_changed_byte_is_noticed(key_file: KeyFile) -> None:
    serializer, deserializer = pair(key_file.path)
    sealed = serializer.serialize("orders", b"pay 10 to bob")
    assert sealed is not None
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        with pytest.raises(SerializationError):
            deserializer.deserialize("orders", bytes(changed))
    for length in range(len(sealed)):
        with pytest.raises(SerializationError):
            deserializer.deserialize("orders", sealed[:length])


def test_a_value_cannot_move_to_another_topic_or_header(key_file: KeyFile) -> None:
    serializer, deserializer = pair(key_file.path, headers="a,b")
    sealed = serializer.serialize("orders", b"x")
    with pytest.raises(SerializationError, match="another topic than payments"):
        deserializer.deserialize("payments", sealed)
    headers: list[Header] = [("a", b"1"), ("b", b"2")]
    serializer.serialize("orders", b"x", headers)
    swapped = [("a", headers[1][1]), ("b", headers[0][1])]
    with pytest.raises(SerializationError, match="field a of the value"):
        deserializer.decrypt_headers("orders", swapped)


def test_values_that_are_not_bound_may_be_copied(key_file: KeyFile) -> None:
    serializer, deserializer = pair(key_file.path, bind_topic="false")
    assert deserializer.deserialize("copies", serializer.serialize("orders", b"x")) == b"x"
    bound, _ = pair(key_file.path)
    _, reader = pair(key_file.path, bound_topic="orders")
    assert reader.deserialize("copies", bound.serialize("orders", b"x")) == b"x"


def test_plain_values_are_refused_unless_a_topic_began_with_them(key_file: KeyFile) -> None:
    _, deserializer = pair(key_file.path)
    with pytest.raises(SerializationError, match="not encrypted"):
        deserializer.deserialize("orders", b"plain")
    _, lenient = pair(key_file.path, accept_plaintext="true")
    assert lenient.deserialize("orders", b"plain") == b"plain"


@pytest.mark.parametrize("size", [0, 16, 33])
def test_something_else_in_the_place_of_a_data_key_is_a_refused_record(size: int) -> None:
    data = seal(
        b"x", cipher=AESGCM(bytes(32)), key_name="orders", wrapped_key=b"orders|" + bytes(size), part="value", topic="t"
    )
    deserializer = DecryptingDeserializer(BytesDeserializer(), keys=DataKeys(SERVICE))
    with pytest.raises(SerializationError, match="has not 256 bits"):
        deserializer.deserialize("t", data)


def test_the_service_is_asked_once_for_many_records() -> None:
    service, now = CountingService(), 0.0
    keys = DataKeys(service, records_max=10, seconds_max=60, clock=lambda: now)
    serializer = EncryptingSerializer(BytesSerializer(), keys=keys, key_name="k")
    sealed = [serializer.serialize("t", b"x") for _ in range(25)]
    assert service.wrapped == 3
    now = 61.0
    serializer.serialize("t", b"x")
    assert service.wrapped == 4
    reader = DecryptingDeserializer(BytesDeserializer(), keys=DataKeys(service))
    assert [reader.deserialize("t", ciphertext) for ciphertext in sealed] == [b"x"] * 25
    assert service.unwrapped == 3


def test_rotation_new_encryption_and_the_end_of_a_version(key_file: KeyFile) -> None:
    serializer, deserializer = pair(key_file.path)
    old = serializer.serialize("orders", b"x")
    assert key_file.rotate("orders") == 2
    # A running reader sees the rotation; a running writer uses the new version with its next data key.
    assert deserializer.deserialize("orders", old) == b"x"
    keys = DataKeys(FileKeyService(key_file.path))
    renewal = Reencryption(keys, source_topic="orders", target_topic="orders-2")
    new, headers = renewal.value(old), renewal.headers([("plain", b"1"), ("none", None)])
    assert headers == [("plain", b"1"), ("none", None)]
    assert renewal.value(None) is None
    assert renewal.value(b"not encrypted") == b"not encrypted"
    key_file.retire("orders", 1)
    _, later = pair(key_file.path)
    assert later.deserialize("orders-2", new) == b"x"
    with pytest.raises(SerializationError, match="Version 1 of the key orders"):
        later.deserialize("orders", old)


def test_a_named_key_encrypts_what_was_plain(key_file: KeyFile) -> None:
    keys = DataKeys(FileKeyService(key_file.path))
    renewal = Reencryption(keys, source_topic="orders", target_topic="orders", key_name="orders")
    _, deserializer = pair(key_file.path)
    assert deserializer.deserialize("orders", renewal.value(b"plain")) == b"plain"


def test_files_of_keys_are_private_and_mistakes_explained(key_file: KeyFile, tmp_path: Path) -> None:
    assert os.stat(key_file.path).st_mode & 0o077 == 0
    with pytest.raises(KeyServiceError, match="exists already"):
        key_file.create("orders")
    with pytest.raises(KeyServiceError, match="is the current one"):
        key_file.retire("orders", 1)
    with pytest.raises(KeyServiceError, match="There is no key nosuch"):
        key_file.rotate("nosuch")
    os.chmod(key_file.path, 0o644)
    with pytest.raises(KeyServiceError, match="chmod 600"):
        key_file.read()
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"orders": {"current": 1, "versions": {"1": "planted"}}}')
    wrong.chmod(0o600)
    with pytest.raises(KeyServiceError, match="not a file of keys") as failure:
        KeyFile(str(wrong)).read()
    assert "planted" not in str(failure.value)
    with pytest.raises(KeyServiceError, match="cannot be read"):
        KeyFile(str(tmp_path / "none")).read()


def test_a_file_that_cannot_be_read_says_nothing_about_the_record(key_file: KeyFile) -> None:
    """A missing key is a problem of the record; a missing file is not, so that the batch is repeated."""
    sealed = pair(key_file.path)[0].serialize("orders", b"x")
    other = KeyFile(f"{key_file.path}.other")
    other.create("invoices")
    failures = []
    for content in ("{", Path(other.path).read_text()):
        Path(key_file.path).write_text(content)
        with pytest.raises(SerializationError) as failure:
            pair(key_file.path)[1].deserialize("orders", sealed)
        failures.append(is_registry_failure(failure.value))
    os.remove(key_file.path)
    with pytest.raises(SerializationError, match="cannot be read") as failure:
        pair(key_file.path)[1].deserialize("orders", sealed)
    assert [*failures, is_registry_failure(failure.value)] == [True, False, True]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "encryption.key.file is missing"),
        ({"encryption.key.service": "vault"}, "encryption.vault.url is missing"),
        ({"encryption.key.service": "os.system"}, "no key service 'os.system'"),
        ({"encryption.key.file": "x", "encryption.kye.name": "y"}, "encryption.kye.name is not a setting"),
        ({"encryption.key.file": "x", "encryption.bind.topic": "maybe"}, "neither true nor false"),
        ({"encryption.key.file": "x", "encryption.data.key.records": "0"}, "not a positive number"),
    ],
)
def test_wrong_settings_say_what_is_wrong(settings: dict[str, str], reason: str) -> None:
    with pytest.raises((ValueError, KeyServiceError), match=reason.replace(".", r"\.")):
        EncryptingSerializer(BytesSerializer()).configure(settings, is_key=False)


def test_keys_of_records_are_not_encrypted() -> None:
    with pytest.raises(ValueError, match="partitions and compaction"):
        EncryptingSerializer(BytesSerializer()).configure({}, is_key=True)


def test_a_key_must_be_named(key_file: KeyFile) -> None:
    serializer = EncryptingSerializer(BytesSerializer(), keys=DataKeys(FileKeyService(key_file.path)))
    with pytest.raises(SerializationError, match=r"encryption\.key\.name"):
        serializer.serialize("orders", b"x")


def test_changes_at_the_same_time_lose_no_key(key_file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both read the file before either writes it, unless the second one waits."""
    read, both_have_read = KeyFile.read, threading.Barrier(2)

    def read_together(file: KeyFile) -> dict[str, Key]:
        keys = read(file)
        with contextlib.suppress(threading.BrokenBarrierError):
            both_have_read.wait(0.2)
        return keys

    monkeypatch.setattr(KeyFile, "read", read_together)
    changes = [
        threading.Thread(target=KeyFile(key_file.path).rotate, args=("orders",)),
        threading.Thread(target=KeyFile(key_file.path).create, args=("payments",)),
    ]
    for change in changes:
        change.start()
    for change in changes:
        change.join(60)
    monkeypatch.undo()
    keys = key_file.read()
    assert sorted(keys) == ["orders", "payments"]
    assert keys["orders"].current == 2
