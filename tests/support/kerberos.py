"""A Kerberos realm for tests: a key distribution center of MIT Kerberos, from the operating system's packages."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.host.free_ports import free_ports

__all__ = ["REALM", "Realm", "missing_reason"]

REALM = "OTTLA.EXAMPLE"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


def missing_reason() -> str | None:
    """The reason why a realm cannot run on this machine, or None."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if missing:
        return f"no {', '.join(missing)} (Debian: krb5-kdc, krb5-admin-server)"
    return None if importlib.util.find_spec("gssapi") else "no Python package gssapi (Debian: libkrb5-dev to build it)"


class Realm:
    """A running realm. `environment` makes programs use it; `keytab` has the keys of principals."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # UDP and TCP have the same number, and only one of them is known to be free.
        (self._port,) = free_ports(1)
        self.keytab = directory / "keys.keytab"
        self.configuration = directory / "krb5.conf"
        self.environment = {
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{directory / 'tickets'}",
            "KRB5RCACHETYPE": "none",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.configuration.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " rdns = false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self._port}\n }}\n"
        )
        (self._directory / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{self._port}\n kdc_tcp_listen = 127.0.0.1:{self._port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {self._directory / 'principals'}\n"
            f"  key_stash_file = {self._directory / 'stash'}\n  acl_file = {self._directory / 'acl'}\n }}\n"
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-password")
        log = (self._directory / "kdc.log").open("wb")
        with log:
            self._process = subprocess.Popen(["krb5kdc", "-n"], env=self._whole_environment(), stdout=log, stderr=log)
        self._wait_until_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def add(self, *principals: str) -> None:
        """Adds principals and writes their keys to the keytab."""
        for principal in principals:
            self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
            self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(self.keytab), principal)

    def log_in(self, principal: str) -> None:
        """Stores a ticket of the principal in the credential cache."""
        self._run("kinit", "-k", "-t", str(self.keytab), principal)

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=5).close()
                return
            except OSError:
                log = (self._directory / "kdc.log").read_text()
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.__exit__(None, None, None)
                    raise AssertionError(log) from None
            time.sleep(0.02)

    def _run(self, *command: str) -> None:
        completed = subprocess.run(
            list(command), env=self._whole_environment(), capture_output=True, text=True, timeout=60
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr

    def _whole_environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": PATH, **self.environment}
