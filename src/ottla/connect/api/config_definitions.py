"""Declarations of settings: the names, types, defaults and validators of a plug-in or a worker.

A plug-in declares its settings once:

    CONFIG = (
        ConfigDefinitions()
        .define("file", ConfigType.STRING, importance=Importance.HIGH, documentation="The file to read.")
        .define("batch.size", ConfigType.INT, default=2000, validator=Range(minimum=1), documentation="Rows at a time.")
    )

From that one declaration come typed values (`parse`), the answers of `PUT /connector-plugins/x/config/validate`
(`validate`), and the documentation of `GET /connector-plugins/x/config`. Values always arrive as text, because
property files and the JSON of the REST interface have no other type. Types, validators and the parsing of values are
those of the broker's own configuration (`ottla.model.config`).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ottla.model.config.validators import NonEmpty, OneOf, Range, SomeOf, Validator
from ottla.model.config.values import (
    REQUIRED,
    ConfigType,
    Importance,
    Password,
    Required,
    Setting,
    ValueNotAllowed,
    complaint,
    format_value,
    parse_value,
)

__all__ = [
    "REQUIRED",
    "ConfigDefinition",
    "ConfigDefinitions",
    "ConfigError",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "Matches",
    "NonEmpty",
    "OneOf",
    "Password",
    "Range",
    "Setting",
    "Settings",
    "SomeOf",
    "Validator",
    "Width",
    "names_in",
]

# Returns what is wrong with a value, as a sentence without the name of the setting, or None.
Check = Callable[[Setting], str | None]
# The values to choose from, given the rest of the configuration.
Recommender = Callable[[Mapping[str, str]], Sequence[str]]


class Width(enum.Enum):
    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class ConfigError(ValueError):
    """An invalid configuration. `name` is the setting at fault, if a single setting is."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDefinition:
    """The declaration of a setting."""

    name: str
    type: ConfigType
    default: Setting | Required = REQUIRED
    importance: Importance = Importance.MEDIUM
    documentation: str = ""
    # A validator function returns a sentence about what is wrong.
    validator: Validator | Check | None = None
    recommended: Recommender | None = None
    group: str | None = None
    order_in_group: int = -1
    width: Width = Width.NONE
    display_name: str | None = None
    dependents: tuple[str, ...] = ()
    # True if `GET .../config` does not list the setting.
    internal: bool = False

    @property
    def is_required(self) -> bool:
        return isinstance(self.default, Required)

    def parse(self, text: str | None) -> Setting:
        """The typed and validated value of `text`; the default if `text` is None. Raises ConfigError."""
        if text is None:
            if isinstance(self.default, Required):
                raise ConfigError(f"{self.name} is required and has no default.", name=self.name)
            return self.default
        try:
            value = parse_value(self.type, text)
        except ValueNotAllowed as error:
            raise ConfigError(complaint(self.name, f"'{text}'", error.allowed), name=self.name) from None
        self._check(value, "[hidden]" if self.type is ConfigType.PASSWORD else text)
        return value

    def _check(self, value: Setting, shown: str) -> None:
        if self.validator is None:
            return
        if callable(self.validator):
            wrong = self.validator(value)
            if wrong is not None:
                raise ConfigError(f"{self.name} is '{shown}': {wrong}", name=self.name)
        elif not self.validator.accepts(value):
            raise ConfigError(complaint(self.name, f"'{shown}'", self.validator.allowed), name=self.name)


@dataclass(slots=True, kw_only=True)
class ConfigValue:
    """The validation result of a setting: its value as text, the values to choose from, and the errors."""

    name: str
    value: str | None
    recommended: list[str]
    errors: list[str]
    visible: bool = True


class Settings(Mapping[str, Setting]):
    """Typed values by name, with an accessor for each type."""

    def __init__(self, values: Mapping[str, Setting], original: Mapping[str, str]) -> None:
        self._values = dict(values)
        # The whole configuration as text, including undeclared settings.
        self.original: Mapping[str, str] = dict(original)

    def __getitem__(self, name: str) -> Setting:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def text(self, name: str) -> str:
        value = self.text_or_none(name)
        assert value is not None, f"{name} is no text"
        return value

    def text_or_none(self, name: str) -> str | None:
        """A text, or the text of a password."""
        value = self._values[name]
        if isinstance(value, Password):
            return value.value
        assert value is None or isinstance(value, str), f"{name} is no text"
        return value

    def integer(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int), f"{name} is no whole number"
        return value

    def number(self, name: str) -> float:
        value = self._values[name]
        assert isinstance(value, int | float), f"{name} is no number"
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool), f"{name} is neither true nor false"
        return value

    def texts(self, name: str) -> list[str]:
        value = self._values[name]
        assert isinstance(value, tuple), f"{name} is no list"
        return list(value)


class ConfigDefinitions:
    """The settings of a plug-in, in the order of their declaration."""

    def __init__(self, definitions: Iterable[ConfigDefinition] = ()) -> None:
        self._definitions: dict[str, ConfigDefinition] = {}
        for definition in definitions:
            self.add(definition)

    def __iter__(self) -> Iterator[ConfigDefinition]:
        return iter(self._definitions.values())

    def __contains__(self, name: object) -> bool:
        return name in self._definitions

    def __getitem__(self, name: str) -> ConfigDefinition:
        return self._definitions[name]

    def __len__(self) -> int:
        return len(self._definitions)

    def add(self, definition: ConfigDefinition) -> None:
        assert definition.name not in self._definitions, f"{definition.name} is declared twice"
        self._definitions[definition.name] = definition

    def define(
        self,
        name: str,
        type: ConfigType,
        *,
        default: Setting | Required = REQUIRED,
        importance: Importance = Importance.MEDIUM,
        documentation: str = "",
        validator: Validator | Check | None = None,
        recommended: Recommender | None = None,
        group: str | None = None,
        order_in_group: int = -1,
        width: Width = Width.NONE,
        display_name: str | None = None,
        dependents: tuple[str, ...] = (),
        internal: bool = False,
    ) -> ConfigDefinitions:
        """Adds a setting and returns the definitions, so that declarations read as one expression."""
        self.add(
            ConfigDefinition(
                name=name,
                type=type,
                default=default,
                importance=importance,
                documentation=documentation,
                validator=validator,
                recommended=recommended,
                group=group,
                order_in_group=order_in_group,
                width=width,
                display_name=display_name,
                dependents=dependents,
                internal=internal,
            )
        )
        return self

    def joined(self, other: Iterable[ConfigDefinition]) -> ConfigDefinitions:
        """These settings and those of `other` that are not declared here."""
        together = ConfigDefinitions(self)
        for definition in other:
            if definition.name not in together:
                together.add(definition)
        return together

    def groups(self) -> list[str]:
        """The groups in the order in which they are first named."""
        return list(dict.fromkeys(definition.group for definition in self if definition.group is not None))

    def parse(self, config: Mapping[str, str]) -> Settings:
        """Every declared setting as a typed value. Raises ConfigError for the first invalid value."""
        return Settings({definition.name: definition.parse(config.get(definition.name)) for definition in self}, config)

    def validate(self, config: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """The validation result of every declared setting."""
        known = {name: text for name, text in config.items() if text is not None}
        return {definition.name: _validated(definition, known) for definition in self}


def _validated(definition: ConfigDefinition, config: Mapping[str, str]) -> ConfigValue:
    text = config.get(definition.name)
    errors: list[str] = []
    shown: str | None = text
    try:
        value = definition.parse(text)
        shown = format_value(value)
        if definition.type is ConfigType.PASSWORD and value is not None:
            shown = "[hidden]"
    except ConfigError as error:
        errors.append(str(error))
        if definition.type is ConfigType.PASSWORD and text is not None:
            shown = "[hidden]"
    recommended = list(definition.recommended(config)) if definition.recommended is not None else []
    return ConfigValue(name=definition.name, value=shown, recommended=recommended, errors=errors)


@dataclass(frozen=True, slots=True)
class Matches:
    """A text that a regular expression matches as a whole."""

    pattern: str

    @property
    def allowed(self) -> str:
        return f"a text that matches {self.pattern}"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and re.fullmatch(self.pattern, value) is not None


def names_in(text: str | None) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]
