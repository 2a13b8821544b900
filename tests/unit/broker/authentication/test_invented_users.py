"""SCRAM's responses for unknown users are indistinguishable from those for existing users."""

from __future__ import annotations

import string
from types import SimpleNamespace
from typing import Any

from ottla.broker.authentication.exchanges import Exchanges
from ottla.broker.authentication.invented_users import InventedUsers
from ottla.sasl.scram import ScramServer

SHA_256, SHA_512 = 1, 2
BASE_36 = set((string.digits + string.ascii_lowercase).encode())


def credential(salt: bytes, iterations: int, key: bytes = b"k") -> tuple[bytes, bytes, bytes, int]:
    return salt, b"stored" + key, b"server" + key, iterations


def metadata(scram: dict[tuple[str, int], Any]) -> Any:
    return SimpleNamespace(image=SimpleNamespace(scram=scram))


USERS = {
    ("alice", SHA_256): credential(b"1gi8vqnl0b3vr9wyc5pmu0tpv3", 8192),
    ("bob", SHA_512): credential(bytes(range(20)), 4096),
}


def test_iterations_and_salts_look_like_those_of_users() -> None:
    invented = InventedUsers(metadata(USERS))
    of_java, of_bytes = invented.invent(SHA_256, "nobody"), invented.invent(SHA_512, "nobody")
    assert (of_java.iterations, len(of_java.salt), set(of_java.salt) <= BASE_36) == (8192, 26, True)
    assert (of_bytes.iterations, len(of_bytes.salt), set(of_bytes.salt) <= BASE_36) == (4096, 20, False)
    assert invented.invent(SHA_256, "somebody").salt != of_java.salt


def test_every_node_gives_the_same_answer_at_any_time() -> None:
    users = {**USERS, ("bert", SHA_256): credential(b"2" * 26, 8192, b"b")}
    first = InventedUsers(metadata(dict(users))).invent(SHA_256, "nobody")
    assert first == InventedUsers(metadata(dict(users))).invent(SHA_256, "nobody")
    # A third user of the same form changes nothing.
    more = {**users, ("zoe", SHA_256): credential(b"0" * 26, 8192, b"z")}
    assert first == InventedUsers(metadata(more)).invent(SHA_256, "nobody")
    # The secret belongs to the cluster: another cluster gives another answer for the same name.
    others = {**users, ("alice", SHA_256): credential(b"1gi8vqnl0b3vr9wyc5pmu0tpv3", 8192, b"other")}
    assert first.salt != InventedUsers(metadata(others)).invent(SHA_256, "nobody").salt
    # No user knows the secret: each of the first two knows only a part of it.
    others = {**users, ("bert", SHA_256): credential(b"2" * 26, 8192, b"other")}
    assert first.salt != InventedUsers(metadata(others)).invent(SHA_256, "nobody").salt


def test_names_are_spread_over_the_forms_that_users_have() -> None:
    mixed = {**USERS, ("zoe", SHA_256): credential(bytes(16), 20_000)}
    users = metadata(mixed)
    invented = InventedUsers(users)
    names = [f"nobody-{number}" for number in range(50)]
    assert {invented.invent(SHA_256, name).iterations for name in names} == {8192, 20_000}
    # Changes of the metadata are followed.
    users.image.scram = USERS
    assert {invented.invent(SHA_256, name).iterations for name in names} == {8192}


def test_without_users_an_answer_is_invented_as_well() -> None:
    assert InventedUsers(metadata({})).invent(SHA_256, "nobody").iterations == 4096


def test_both_kinds_of_users_cost_the_same_steps() -> None:
    """The invented answer is computed for existing users, too, so the time does not reveal which users exist."""
    users = metadata(USERS)
    checkers: Any = SimpleNamespace(find_credential={})
    exchanges = Exchanges(None, checkers, users, None)  # type: ignore[arg-type]
    invented: list[str] = []
    invent = exchanges._invented.invent

    def counted(mechanism: int, user: str) -> Any:
        invented.append(user)
        return invent(mechanism, user)

    exchanges._invented.invent = counted  # type: ignore[method-assign]
    for user in ("alice", "nobody"):
        server = exchanges.begin("SCRAM-SHA-256")
        assert isinstance(server, ScramServer)
        answer = server.evaluate(f"n,,n={user},r=abc".encode())
        assert isinstance(answer, bytes)
        assert b",i=8192" in answer
    assert invented == ["alice", "nobody"]
