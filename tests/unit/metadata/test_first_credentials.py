"""The argument of --add-scram: error messages do not repeat the argument."""

from __future__ import annotations

import pytest

from ottla.metadata.first_credentials import CredentialError, parse_credential


def test_a_password_becomes_keys() -> None:
    record = parse_credential("SCRAM-SHA-256=[name=alice,password=secret]", bytes)
    assert (record.name, record.mechanism, record.iterations) == ("alice", 1, 4096)


@pytest.mark.parametrize(
    "options",
    [
        "name=alice",
        "password=secret",
        "name=alice,password=secret,saltedpassword=secret",
        "name=alice,saltedpassword=c2VjcmV0",
        "name=alice,password=secret,iterations=1",
        "name=alice,saltedpassword=secret,salt=?",
        "name=alice,saltedpassword=secretä,salt=c2FsdA==",
        "name=alice,password=secret\u0007",
        "name=alice,secret",
    ],
)
def test_what_cannot_be_used_is_refused_without_the_secret(options: str) -> None:
    with pytest.raises(CredentialError) as failure:
        parse_credential(f"SCRAM-SHA-512=[{options}]", bytes)
    assert "secret" not in str(failure.value)
