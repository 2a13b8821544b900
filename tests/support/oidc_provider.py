"""An OpenID provider for tests: the code flow with PKCE, for the browser's user (`user`)."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.http_servers import AnsweringHandler, http_server
from tests.support.identity_provider import IdentityProvider

__all__ = ["CLIENT_ID", "CLIENT_SECRET", "OidcProvider"]

CLIENT_ID, CLIENT_SECRET = "console", "console-secret"


class OidcProvider:
    def __init__(self) -> None:
        self.signer = IdentityProvider()
        self.user = "alice"
        self.groups: list[str] = []
        self.issuer = ""
        # Claims that a dishonest provider or an attacker would change.
        self.claims: dict[str, Any] = {}
        # The lifetime of access tokens.
        self.lifetime_seconds: float | None = None
        # The audience of access tokens; None for the cluster's audience.
        self.audience: str | None = None
        self._codes: dict[str, dict[str, str]] = {}

    def authorize(self, query: dict[str, str]) -> str:
        """The address to which the browser is redirected."""
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def exchange(self, form: dict[str, str], authorization: str | None) -> tuple[int, dict[str, Any]]:
        grant = self._codes.pop(form.get("code", ""), None)
        pair = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if grant is None or authorization != f"Basic {pair}" or form["redirect_uri"] != grant["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if challenge.decode() != grant["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "nonce": grant["nonce"], "groups": self.groups, **self.claims}
        token = self.signer.token(self.user, **claims)
        tokens: dict[str, Any] = {"id_token": token, "token_type": "Bearer"}
        own: dict[str, Any] = {} if self.audience is None else {"aud": self.audience}
        if self.lifetime_seconds is not None:
            tokens["expires_in"] = self.lifetime_seconds
            own["exp"] = time.time() + self.lifetime_seconds
        return 200, {**tokens, "access_token": self.signer.token(self.user, **own)}

    @contextmanager
    def serving(self) -> Iterator[OidcProvider]:
        provider = self

        class Handler(AnsweringHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/.well-known/openid-configuration":
                    endpoints = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
                    urls = {name: f"{provider.issuer}/{path}" for name, path in endpoints.items()}
                    self.answer_json(200, json.dumps({"issuer": provider.issuer, **urls}).encode())
                elif parts.path == "/keys":
                    self.answer_json(200, provider.signer.document)
                elif parts.path == "/authorize":
                    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                    self.answer_json(302, b"", Location=provider.authorize(query))
                else:
                    self.answer_json(404, b"")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                status, answer = provider.exchange(form, self.headers.get("Authorization"))
                self.answer_json(status, json.dumps(answer).encode())

        with http_server(Handler) as address:
            self.issuer = f"http://{address}"
            yield self
