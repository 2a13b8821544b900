"""What may be configured: the names, types, defaults and checks that a plug-in or a worker declares about its settings.

A plug-in declares its settings once:

    CONFIG = (
        ConfigDefinitions()
        .define("file", ConfigType.STRING, importance=Importance.HIGH, documentation="The file to read.")
        .define("batch.size", ConfigType.INT, default=2000, validator=Range(minimum=1), documentation="Rows at a time.")
    )

From that one declaration come typed values (`parse`), the answers of `PUT /connector-plugins/x/config/validate`
(`validate`), and the documentation of `GET /connector-plugins/x/config`. Values arrive as text, always: property files
and JSON of the REST interface know nothing else. The types and their spelling are those of Kafka's configurations.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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
    "Range",
    "Setting",
    "Settings",
    "Validator",
    "Width",
    "names_in",
]

Setting = str | int | float | bool | list[str] | None
# A validator answers with what is wrong, as a sentence without the name, or None.
Validator = Callable[[Setting], str | None]
# What could be chosen, given the rest of the configuration.
Recommender = Callable[[Mapping[str, str]], Sequence[str]]


class ConfigType(enum.Enum):
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(enum.Enum):
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(enum.Enum):
    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()


class ConfigError(ValueError):
    """A configuration that cannot be used; `name` is the setting it is about, when it is about one."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDefinition:
    """One setting: everything that is known of it without a value."""

    name: str
    type: ConfigType
    default: Setting | _Required = REQUIRED
    importance: Importance = Importance.MEDIUM
    documentation: str = ""
    validator: Validator | None = None
    recommended: Recommender | None = None
    group: str | None = None
    order_in_group: int = -1
    width: Width = Width.NONE
    display_name: str | None = None
    dependents: tuple[str, ...] = ()
    # A setting whose own name is not shown by `GET .../config`.
    internal: bool = False

    @property
    def is_required(self) -> bool:
        return isinstance(self.default, _Required)

    def parse(self, text: str | None) -> Setting:
        """The typed value of `text`, checked; the default when there is none. Raises ConfigError."""
        if text is None:
            if isinstance(self.default, _Required):
                raise ConfigError(f"{self.name} is required and has no default.", name=self.name)
            return self.default
        value = _parse(self.name, self.type, text)
        if self.validator is not None:
            wrong = self.validator(value)
            if wrong is not None:
                shown = "[hidden]" if self.type is ConfigType.PASSWORD else text
                raise ConfigError(f"{self.name} is '{shown}': {wrong}", name=self.name)
        return value


@dataclass(slots=True, kw_only=True)
class ConfigValue:
    """What was found for one setting: the value as text, what could be chosen, and what is wrong."""

    name: str
    value: str | None
    recommended: list[str]
    errors: list[str]
    visible: bool = True


class Settings(Mapping[str, Setting]):
    """Typed values by name, with accessors that say which type the caller expects."""

    def __init__(self, values: Mapping[str, Setting], original: Mapping[str, str]) -> None:
        self._values = dict(values)
        # All that was given, also what nobody declared.
        self.original: Mapping[str, str] = dict(original)

    def __getitem__(self, name: str) -> Setting:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def text(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str), f"{name} is no text"
        return value

    def text_or_none(self, name: str) -> str | None:
        value = self._values[name]
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
        assert isinstance(value, list), f"{name} is no list"
        return list(value)


class ConfigDefinitions:
    """The settings that a plug-in knows, in the order of their declaration."""

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
        default: Setting | _Required = REQUIRED,
        importance: Importance = Importance.MEDIUM,
        documentation: str = "",
        validator: Validator | None = None,
        recommended: Recommender | None = None,
        group: str | None = None,
        order_in_group: int = -1,
        width: Width = Width.NONE,
        display_name: str | None = None,
        dependents: tuple[str, ...] = (),
        internal: bool = False,
    ) -> ConfigDefinitions:
        """Adds a setting and gives back the definitions, so that declarations read as one expression."""
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
        return list(dict.fromkeys(each.group for each in self if each.group is not None))

    def parse(self, config: Mapping[str, str]) -> Settings:
        """Every declared setting as a typed value. Raises ConfigError at the first that is wrong."""
        return Settings({each.name: each.parse(config.get(each.name)) for each in self}, config)

    def validate(self, config: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Every declared setting with all that is wrong; nothing is raised."""
        known = {name: text for name, text in config.items() if text is not None}
        return {each.name: _validated(each, known) for each in self}


def _validated(definition: ConfigDefinition, config: Mapping[str, str]) -> ConfigValue:
    text = config.get(definition.name)
    errors: list[str] = []
    shown: str | None = text
    try:
        value = definition.parse(text)
        shown = as_text(value)
        if definition.type is ConfigType.PASSWORD and value is not None:
            shown = "[hidden]"
    except ConfigError as error:
        errors.append(str(error))
        if definition.type is ConfigType.PASSWORD and text is not None:
            shown = "[hidden]"
    recommended = list(definition.recommended(config)) if definition.recommended is not None else []
    return ConfigValue(name=definition.name, value=shown, recommended=recommended, errors=errors)


def as_text(value: Setting) -> str | None:
    """A typed value as Kafka writes it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    return str(value)


@dataclass(frozen=True, slots=True)
class Range:
    """A number not below `minimum` and not above `maximum`."""

    minimum: float | None = None
    maximum: float | None = None

    def __call__(self, value: Setting) -> str | None:
        if value is None:
            return "it must be a number."
        assert isinstance(value, int | float)
        if self.minimum is not None and value < self.minimum:
            return f"it must be at least {self.minimum}."
        if self.maximum is not None and value > self.maximum:
            return f"it must be at most {self.maximum}."
        return None


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these words (each of a list), in any letters when `any_case`."""

    words: tuple[str, ...]
    any_case: bool = False

    def __call__(self, value: Setting) -> str | None:
        given = value if isinstance(value, list) else [value]
        for each in given:
            found = (
                any(str(each).lower() == word.lower() for word in self.words) if self.any_case else each in self.words
            )
            if not found:
                return f"it must be one of {', '.join(self.words)}."
        return None


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """A text or list with something in it."""

    def __call__(self, value: Setting) -> str | None:
        return "it must not be empty." if value in ("", [], None) else None


@dataclass(frozen=True, slots=True)
class Matches:
    """A text that a regular expression matches as a whole."""

    pattern: str

    def __call__(self, value: Setting) -> str | None:
        if isinstance(value, str) and re.fullmatch(self.pattern, value):
            return None
        return f"it must match {self.pattern}."


_BOUNDS = {ConfigType.SHORT: 2**15, ConfigType.INT: 2**31, ConfigType.LONG: 2**63}
_NAMES = {
    ConfigType.SHORT: "a 16-bit whole number",
    ConfigType.INT: "a 32-bit whole number",
    ConfigType.LONG: "a 64-bit whole number",
}


def names_in(text: str | None) -> list[str]:
    """The names in a list as configurations write it, with commas."""
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def _parse(name: str, type: ConfigType, given: str) -> Setting:
    text = given.strip()
    if type is ConfigType.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{name} is '{given}', but it must be true or false.", name=name)
        return text.lower() == "true"
    if type in _BOUNDS:
        bound = _BOUNDS[type]
        if not re.fullmatch(r"[+-]?[0-9]+", text) or not -bound <= int(text) < bound:
            raise ConfigError(f"{name} is '{given}', but it must be {_NAMES[type]}.", name=name)
        return int(text)
    if type is ConfigType.DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise ConfigError(f"{name} is '{given}', but it must be a number.", name=name) from None
    if type is ConfigType.LIST:
        return [each.strip() for each in text.split(",")] if text else []
    return text
