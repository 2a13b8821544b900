"""The authorizer that `authorizer.class.name` selects.

The name of Apache Kafka's authorizer selects `StandardAuthorizer`. Any other value is the dotted name of a Python
class, which is called with the node's configuration and has the methods of `ottla.broker.authorization.Authorizer`;
`authorize_softly` may be missing, because only an authorizer that records its decisions needs one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ottla.broker.access.standard import StandardAuthorizer
from ottla.model.config.keys import ConfigError

if TYPE_CHECKING:
    from ottla.broker.authorization import Authorizer
    from ottla.metadata.publishers import Publishers
    from ottla.model.config import BrokerConfig
    from ottla.model.deferred import Deferred

__all__ = ["load_authorizer"]

_KEY = "authorizer.class.name"
_STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_METHODS = ("authorize", "authorize_by_resource_type", "authorized_operations")


def load_authorizer(config: BrokerConfig, metadata: Publishers, caught_up: Deferred[None]) -> Authorizer:
    """The authorizer, which follows the ACLs in the metadata if it is the standard one.

    `caught_up` resolves when the image in `metadata` is as new as the active controller's.
    """
    name = config.authorizer_class_name.strip()
    if name != _STANDARD:
        return _plug_in(name, config)
    standard = StandardAuthorizer(config)
    standard.start(metadata.image)
    metadata.add(standard)
    if not caught_up.done:
        standard.wait()
        caught_up.when_done(lambda _: standard.caught_up(metadata.image))
    return standard


def _plug_in(name: str, config: BrokerConfig) -> Authorizer:
    module, _, attribute = name.rpartition(".")
    try:
        authorizer_class = getattr(import_module(module), attribute) if module else None
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{_KEY} is {name}, which cannot be imported ({error}). {_advice()}", key=_KEY) from error
    if not callable(authorizer_class):
        raise ConfigError(f"{_KEY} is {name}, which is no class. {_advice()}", key=_KEY)
    authorizer: Authorizer = authorizer_class(config)
    missing = [method for method in _METHODS if not callable(getattr(authorizer, method, None))]
    if missing or not isinstance(getattr(authorizer, "decisions_version", None), int):
        raise ConfigError(
            f"{_KEY} is {name}, which lacks {', '.join(missing) or 'the number decisions_version'}: "
            "see ottla.broker.authorization.Authorizer.",
            key=_KEY,
        )
    if not hasattr(authorizer, "authorize_softly"):
        return cast("Authorizer", _WithSoftQuestions(authorizer))
    return authorizer


class _WithSoftQuestions:
    """A plug-in that answers both kinds of questions in the same way."""

    __slots__ = ("_authorizer",)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def authorize_softly(self, *question: Any) -> bool:
        return self._authorizer.authorize(*question)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._authorizer, name)


def _advice() -> str:
    return f"It must be {_STANDARD} or the dotted name of a Python class."
