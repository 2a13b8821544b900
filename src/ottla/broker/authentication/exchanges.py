"""The server's end of a SASL exchange, for each mechanism of a listener, with the source of its credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.authentication.invented_users import InventedUsers
from ottla.sasl.exchange import ServerExchange
from ottla.sasl.oauthbearer import OAuthBearerServer
from ottla.sasl.plain import PlainServer
from ottla.sasl.scram import MECHANISMS as SCRAM_MECHANISMS
from ottla.sasl.scram import ScramKeys, ScramServer, TokenCredential

if TYPE_CHECKING:
    from ottla.broker.authentication.checkers import Checkers
    from ottla.broker.authentication.settings import SaslSettings
    from ottla.broker.authentication.tokens import TokenCredentials
    from ottla.metadata.publishers import Publishers
    from ottla.model.deferred import Deferred

__all__ = ["Exchanges"]

_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


class Exchanges:
    def __init__(
        self, settings: SaslSettings, checkers: Checkers, metadata: Publishers, tokens: TokenCredentials | None
    ) -> None:
        self._settings = settings
        self._checkers = checkers
        self._metadata = metadata
        # None if the cluster has no delegation tokens.
        self._tokens = tokens
        self._invented = InventedUsers(metadata)

    def begin(self, mechanism: str) -> ServerExchange:
        """A new exchange. The mechanism is one of the listener's."""
        checkers = self._checkers
        if mechanism in SCRAM_MECHANISMS:
            find_keys = checkers.find_credential.get(mechanism) or self._find_keys(mechanism)
            number = _NUMBERS[mechanism]
            return ScramServer(
                mechanism,
                find_keys,
                find_token=self._find_token(mechanism),
                invent=lambda user: self._invented.invent(number, user),
            )
        if mechanism == "OAUTHBEARER":
            assert checkers.validate_token is not None, "checked with the settings"
            return OAuthBearerServer(checkers.validate_token)
        if mechanism == "GSSAPI":
            assert checkers.begin_kerberos is not None, "checked with the settings"
            return checkers.begin_kerberos()
        return PlainServer(checkers.check_password or self._settings.is_password)

    def _find_keys(self, mechanism: str) -> Callable[[str], ScramKeys | None]:
        def find(user: str) -> ScramKeys | None:
            credential: Any = self._metadata.image.scram.get((user, _NUMBERS[mechanism]))
            return None if credential is None else ScramKeys(*credential)

        return find

    def _find_token(self, mechanism: str) -> Callable[[str], TokenCredential | Deferred[TokenCredential | None] | None]:
        def find(token_id: str) -> TokenCredential | Deferred[TokenCredential | None] | None:
            return None if self._tokens is None else self._tokens.find(mechanism, token_id)

        return find
