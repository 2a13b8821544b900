"""The credentials of delegation tokens, derived with the first login with a token and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.sasl.delegation import token_keys
from ottla.sasl.scram import ScramKeys, TokenCredential

if TYPE_CHECKING:
    from ottla.metadata.publishers import Publishers
    from ottla.model.ports import Clock

__all__ = ["TokenCredentials"]

# The credentials that are kept. Deriving one takes some milliseconds.
KEPT_MAX = 10_000


class TokenCredentials:
    def __init__(self, metadata: Publishers, clock: Clock, secret: str) -> None:
        self._metadata = metadata
        self._clock = clock
        self._secret = secret
        self._kept: dict[tuple[str, str], ScramKeys] = {}

    def find(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """None for a token that does not exist or has expired. Only an existing token costs a derivation."""
        token = self._metadata.image.delegation_tokens.get(token_id)
        if token is None or token.expiration_timestamp <= self._clock.now_ms():
            return None
        kept = self._kept
        keys = kept.get((token_id, mechanism))
        if keys is None:
            keys = kept[token_id, mechanism] = token_keys(mechanism, self._secret, token_id)
            if len(kept) > KEPT_MAX:
                del kept[next(iter(kept))]
        return TokenCredential(keys, token.owner.partition(":")[2], token.expiration_timestamp)
