"""Consoles as processes, and browsers for their API: a cookie jar and the CSRF token."""

from __future__ import annotations

import http.cookiejar
import json
import re
import shlex
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from typing import Any

import click

from ottla.cli.app import root

__all__ = ["Browser", "ConsoleProcess", "check_command", "console_process"]


class ConsoleProcess:
    def __init__(self, bootstrap: str, *options: str) -> None:
        command = [sys.executable, "-m", "ottla.cli.main", "console", "-b", bootstrap, *options]
        if "--port" not in options:
            command += ["--port", "0"]
        # A file, because a pipe without a reader would block the console.
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            self.process.kill()
            self.process.communicate()
            log = self.log
            self._log.close()
            raise AssertionError(f"The console did not start: {line}{log}")
        self.url = line.split()[1]

    def browser(self, tls: ssl.SSLContext | None = None) -> Browser:
        return Browser(self.url, tls)

    @property
    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def stop(self) -> str:
        """Stops the console in order and returns its log."""
        self.process.terminate()
        self.process.communicate(timeout=60)
        return self.log

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._log.close()


class Browser:
    """The browser of a user of a console."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self.url = url
        self.cookies = http.cookiejar.CookieJar()
        handlers: list[Any] = [urllib.request.HTTPCookieProcessor(self.cookies)]
        if tls is not None:
            handlers.append(urllib.request.HTTPSHandler(context=tls))
        self._opener = urllib.request.build_opener(*handlers)
        self.token: str | None = None
        self.headers: Message = Message()
        # The address of the last answer, after redirections.
        self.address = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Returns status and body; `self.headers` has the headers of the answer."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} if body is not None else {}
        if self.token is not None:
            sent["X-CSRF-Token"] = self.token
        sent |= {name.replace("_", "-"): text for name, text in headers.items()}
        request = urllib.request.Request(self.url + path, method=method, data=data, headers=sent)
        try:
            with self._opener.open(request, timeout=60) as answer:
                self.headers, self.address = answer.headers, answer.url
                return answer.status, _parsed(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                self.headers = error.headers
                return error.code, _parsed(error.read())

    def get(self, path: str) -> Any:
        status, body = self.ask("GET", path)
        assert status == 200, body
        return body

    def change(self, method: str, path: str, body: Any) -> Any:
        """Sends a change, and requests the CSRF token first if necessary."""
        if self.token is None:
            self.token = self.get("/api/session")["csrf_token"]
        status, answer = self.ask(method, path, body)
        assert status == 200, answer
        if "command" in answer:
            check_command(answer["command"])
            assert answer["plan"]
        return answer

    def failure(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """Sends a request that must fail; returns its status and error code."""
        if self.token is None and method != "GET":
            self.token = self.get("/api/session")["csrf_token"]
        status, answer = self.ask(method, path, body)
        assert status >= 400, answer
        return status, answer["error"]["code"]

    def stream(self, path: str) -> Any:
        """A response whose lines are read as they come; the caller closes it."""
        return self._opener.open(self.url + path, timeout=60)


def check_command(text: str) -> None:
    """Checks that `ottla` accepts the equivalent command of a change, without running it."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|<")
    lexer.whitespace_split = True
    words = list(lexer)
    words = words[words.index("ottla") + 1 :]
    words = words[: words.index("<")] if "<" in words else words
    # Files that the user would write before running the command.
    words = [__file__ if re.fullmatch(r"[\w-]+\.(avsc|proto|json|csv)", word) else word for word in words]

    def parse(context: click.Context, command: click.Command, arguments: list[str]) -> None:
        if isinstance(command, click.Group):
            command.parse_args(context, arguments)
            arguments = [*context._protected_args, *context.args]
            verb = command.commands[arguments[0]]
            parse(click.Context(verb, parent=context, info_name=arguments[0]), verb, arguments[1:])
        else:
            command.make_context(context.info_name, arguments, parent=context.parent)

    command = root.get_command(click.Context(root), words[0])
    assert command is not None, text
    parse(click.Context(command, info_name=words[0]), command, words[1:])


@contextmanager
def console_process(bootstrap: str, *options: str) -> Iterator[ConsoleProcess]:
    console = ConsoleProcess(bootstrap, *options)
    try:
        yield console
    finally:
        console.kill()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode(errors="replace")
