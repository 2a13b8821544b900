"""Settings as declarations."""

from __future__ import annotations

import pytest

from ottla.connect.api.config_definitions import (
    ConfigDefinitions,
    ConfigError,
    ConfigType,
    Matches,
    NonEmpty,
    Range,
    SomeOf,
)

DEFINITIONS = (
    ConfigDefinitions()
    .define("name", ConfigType.STRING, validator=NonEmpty())
    .define("size", ConfigType.INT, default=3, validator=Range(minimum=1, maximum=9))
    .define("big", ConfigType.LONG, default=None)
    .define("share", ConfigType.DOUBLE, default=0.5)
    .define("on", ConfigType.BOOLEAN, default=False)
    .define("some", ConfigType.LIST, default=(), validator=SomeOf("a", "b", may_be_empty=True))
    .define("word", ConfigType.STRING, default="x1", validator=Matches("[a-z][0-9]"))
    .define("secret", ConfigType.PASSWORD, default=None, recommended=lambda config: [config.get("name", "")])
)


def test_text_becomes_typed_values() -> None:
    settings = DEFINITIONS.parse(
        {"name": " n ", "size": " 7 ", "big": "9000000000", "share": "1e-3", "on": "TRUE", "some": "a, b", "other": "o"}
    )
    assert dict(settings) == {
        "name": "n", "size": 7, "big": 9_000_000_000, "share": 0.001, "on": True, "some": ("a", "b"),
        "word": "x1", "secret": None,
    }  # fmt: skip
    assert settings.original["other"] == "o"
    assert settings.integer("size") == 7
    assert settings.flag("on")


@pytest.mark.parametrize(
    ("given", "about"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"size": "0"}, "size"),
        ({"size": "10"}, "size"),
        ({"size": "2147483648"}, "size"),
        ({"size": "1.5"}, "size"),
        ({"big": "x"}, "big"),
        ({"share": "much"}, "share"),
        ({"on": "yes"}, "on"),
        ({"some": "a,c"}, "some"),
        ({"word": "x12"}, "word"),
    ],
)
def test_what_is_wrong_names_the_setting(given: dict[str, str], about: str) -> None:
    config = {"name": "n", **given} if given else {}
    with pytest.raises(ConfigError) as raised:
        DEFINITIONS.parse(config)
    assert raised.value.name == about
    values = DEFINITIONS.validate(config)
    assert [name for name, value in values.items() if value.errors] == [about]


def test_passwords_are_never_shown() -> None:
    values = DEFINITIONS.validate({"name": "n", "secret": "geheim"})
    assert values["secret"].value == "[hidden]"
    assert values["secret"].recommended == ["n"]


def test_defaults_are_shown_as_kafka_writes_them() -> None:
    values = DEFINITIONS.validate({"name": "n"})
    assert [values[name].value for name in ("size", "on", "some", "big")] == ["3", "false", "", None]
