"""An identity provider for tests: keys, signed tokens, and a server with its keys and a token endpoint."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.support.http_servers import AnsweringHandler, http_server

__all__ = ["AUDIENCE", "ISSUER", "IdentityProvider"]

ISSUER, AUDIENCE = "https://identity.example", "kafka"
CLIENT, SECRET = "alice-client", "alice-client-secret"


class IdentityProvider:
    """`url` is set while `serving`."""

    def __init__(self, algorithm: str = "RS256") -> None:
        self.algorithm = algorithm
        self.keys: dict[str, Any] = {}
        self.rotate("first")
        self.lifetime_seconds = 3600.0
        self.url = ""
        # The paths of all requests.
        self.asked: list[str] = []

    def rotate(self, key_id: str, *, keep: bool = False) -> None:
        """Creates a new key, which signs tokens from now on."""
        if self.algorithm.startswith("ES"):
            key: Any = ec.generate_private_key(ec.SECP256R1())
        else:
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.keys = {**(self.keys if keep else {}), key_id: key}
        self.key_id = key_id

    @property
    def document(self) -> bytes:
        """The public keys (JWKS)."""
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        keys = [
            {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig"}  # type: ignore[attr-defined]
            for key_id, key in self.keys.items()
        ]
        return json.dumps({"keys": keys}).encode()

    def token(self, user: str = "alice", *, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A signed token. A claim of None is left out."""
        now = time.time()
        payload = {
            "sub": user,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": int(now),
            "exp": now + self.lifetime_seconds,
            **claims,
        }
        return jwt.encode(
            {name: value for name, value in payload.items() if value is not None},
            self.keys[self.key_id],
            algorithm=self.algorithm,
            headers={"kid": self.key_id, **(headers or {})},
        )

    @contextmanager
    def serving(self) -> Iterator[IdentityProvider]:
        """Serves `/keys`, and `/token` for the client credentials grant."""
        provider = self

        class Handler(AnsweringHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                self.answer_json(200, provider.document) if self.path == "/keys" else self.answer_json(404, b"")

            def do_POST(self) -> None:
                provider.asked.append(self.path)
                if self.path != "/token":
                    self.answer_json(302, b"", Location="/token")
                    return
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                pair = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
                if self.headers.get("Authorization") != f"Basic {pair}" or form["grant_type"] != ["client_credentials"]:
                    self.answer_json(401, b'{"error":"invalid_client"}')
                    return
                fields = {"access_token": provider.token(), "expires_in": provider.lifetime_seconds}
                self.answer_json(200, json.dumps({**fields, "token_type": "Bearer"}).encode())

        with http_server(Handler) as address:
            self.url = f"http://{address}"
            yield self
