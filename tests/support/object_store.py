"""An object store with the part of S3's interface that Delta's library uses, with one bucket in memory.

`python -m tests.support.object_store` prints its address and serves until it is killed.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit
from urllib.request import urlopen
from xml.sax.saxutils import escape

__all__ = ["ObjectStore", "object_store"]

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A running object store; `address` is the address of its interface."""

    address: str

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make S3 clients use this store."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }

    def keys(self, prefix: str) -> list[str]:
        with urlopen(f"{self.address}/{BUCKET}?list-type=2&prefix={quote(prefix)}") as answer:
            return re.findall(r"<Key>(.*?)</Key>", answer.read().decode())


@contextlib.contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Runs in a separate process: Delta's library holds the interpreter's lock while it waits for an answer."""
    command = [sys.executable, "-m", "tests.support.object_store"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield ObjectStore(process.stdout.readline().strip())
        finally:
            process.kill()


class _Content:
    """The objects by key, and parts by upload id and number."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    store = _Content()

    def do_PUT(self) -> None:
        key, query, content = self._read()
        with self.store.lock:
            if "uploadId" in query:
                self.store.uploads[query["uploadId"]][int(query["partNumber"])] = content
            elif self.headers.get("If-None-Match") == "*" and key in self.store.objects:
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            else:
                self.store.objects[key] = content
        self._answer(200, tag=content)

    def do_POST(self) -> None:
        key, query, content = self._read()
        with self.store.lock:
            if "uploads" in query:
                upload = f"upload-{len(self.store.uploads)}"
                self.store.uploads[upload] = {}
                body = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            elif "uploadId" in query:
                parts = self.store.uploads[query["uploadId"]]
                self.store.objects[key] = b"".join(parts[number] for number in sorted(parts))
                body = "<CompleteMultipartUploadResult><ETag>whole</ETag></CompleteMultipartUploadResult>"
            else:
                assert "delete" in query, self.path
                for deleted_key in re.findall(r"<Key>(.*?)</Key>", content.decode()):
                    self.store.objects.pop(deleted_key, None)
                body = "<DeleteResult></DeleteResult>"
        self._answer(200, body.encode())

    def do_DELETE(self) -> None:
        key, _, _ = self._read()
        with self.store.lock:
            self.store.objects.pop(key, None)
        self._answer(204)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        key, query, _ = self._read()
        with self.store.lock:
            if "list-type" in query:
                self._answer(200, self._listed(query))
                return
            content = self.store.objects.get(key)
        if content is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        byte_range = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if byte_range is None:
            self._answer(200, content, tag=content)
            return
        first = int(byte_range[1]) if byte_range[1] else len(content) - int(byte_range[2])
        end = int(byte_range[2]) + 1 if byte_range[1] and byte_range[2] else len(content)
        part = content[first:end]
        self._answer(206, part, tag=content, part_of=f"bytes {first}-{first + len(part) - 1}/{len(content)}")

    def _listed(self, query: dict[str, str]) -> bytes:
        prefix, after, delimiter = (query.get(name, "") for name in ("prefix", "start-after", "delimiter"))
        elements, folders = [], set()
        for key, content in sorted(self.store.objects.items()):
            if not key.startswith(prefix) or key <= after:
                continue
            remainder = key.removeprefix(prefix)
            if delimiter and delimiter in remainder:
                folders.add(prefix + remainder.partition(delimiter)[0] + delimiter)
                continue
            elements.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size><ETag>{_tag(content)}</ETag>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
        elements += [
            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in sorted(folders)
        ]
        whole = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(elements)}</ListBucketResult>"
        return whole.encode()

    def _read(self) -> tuple[str, dict[str, str], bytes]:
        """The key, the parameters and the content of a request."""
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return unquote(parts.path).removeprefix(f"/{BUCKET}").removeprefix("/"), query, content

    def _answer(self, status: int, body: bytes = b"", *, tag: bytes | None = None, part_of: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", formatdate(0, usegmt=True))
        if tag is not None:
            self.send_header("ETag", _tag(tag))
        if part_of:
            self.send_header("Content-Range", part_of)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Writes no log."""


def _tag(content: bytes) -> str:
    return f'"{md5(content, usedforsecurity=False).hexdigest()}"'


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
