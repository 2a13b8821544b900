"""`sasl.jaas.config` in the syntax of Kafka's files."""

from __future__ import annotations

import pytest

from ottla.sasl.jaas import JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_module_with_options() -> None:
    (entry,) = parse_jaas(f'{PLAIN} required username="alice" password="a \\"b\\" ; = c" user_bob=secret;')
    assert entry.module == PLAIN
    assert entry.options == {"username": "alice", "password": 'a "b" ; = c', "user_bob": "secret"}


def test_line_breaks_and_several_modules() -> None:
    text = f"\n  {PLAIN} required\n  username='x';\n a.B optional ;\n"
    assert [entry.module for entry in parse_jaas(text)] == [PLAIN, "a.B"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        PLAIN,
        f"{PLAIN} maybe;",
        f"{PLAIN} required",
        f'{PLAIN} required password="topsecret',
        "a required b=;",
        "a required password topsecret;",
    ],
)
def test_what_is_malformed_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas(text)
    assert "topsecret" not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(parse_jaas(f"{PLAIN} required password=secret;"))
