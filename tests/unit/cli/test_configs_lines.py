"""`ottla configs`: an invalid entity or value is an invalid command line, before the cluster is asked."""

from __future__ import annotations

import pytest

from ottla.cli.app import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["describe"], "Missing entity"),
        (["alter", "--set", "retention.ms=1"], "Missing entity"),
        (["describe", "--broker", "first"], "named by its id"),
        (["describe", "--entity-type", "topic"], "--entity-type topic is none of"),
        (["alter", "--client", "c", "--set", "producer_byte_rate=fast"], "has to be a number"),
        (["alter", "--entity-type", "users", "--set", "producer_byte_rate=1"], "Missing entity"),
    ],
)
def test_the_line_is_read_before_the_cluster_is_asked(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Port 1 refuses connections.
    assert run(["configs", *words, "-b", "127.0.0.1:1", "--timeout", "1"]) == 2
    assert said in capsys.readouterr().err
