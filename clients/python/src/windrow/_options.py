"""Where the server is, who calls, and how patient the client is."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import _http1
from ._call import BASE, Call
from ._json import Seconds, seconds

DEFAULT_SERVER = "http://127.0.0.1:7117"
USER_AGENT = "windrow-python"


@dataclass(frozen=True)
class Options:
    """What was chosen, with what the environment says where nothing was."""

    host: str
    port: int
    #: As a request's Host names it.
    authority: str
    prefix: str
    tls: ssl.SSLContext | None
    bearer: str | None
    attempt: float
    within: float
    idle_max: int

    @staticmethod
    def of(
        server: str | None,
        token: str | None,
        ca: str | os.PathLike[str] | None,
        tls: ssl.SSLContext | None,
        attempt: Seconds,
        within: Seconds,
        idle_max: int,
    ) -> Options:
        said = server or os.environ.get("WINDROW_SERVER") or DEFAULT_SERVER
        scheme, host, port, authority, prefix = _address(said)
        if scheme == "http" and (ca is not None or tls is not None):
            raise ValueError(f"{said!r} is not https, so nothing would be checked against `ca`")
        if scheme == "https" and tls is None:
            tls = ssl.create_default_context(cafile=None if ca is None else os.fspath(ca))
        token = token or _token_of_environment()
        bearer = None if token is None else f"Bearer {_checked(token)}"
        return Options(
            host, port, authority, prefix, tls, bearer, seconds(attempt), seconds(within), idle_max
        )

    def __repr__(self) -> str:
        # Without the token.
        return f"Options({self.server!r})"

    @property
    def server(self) -> str:
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{self.authority}{self.prefix}"

    def written(self, call: Call[Any], *, accept: str | None = None) -> bytes:
        """A call as it goes over the wire."""
        headers = self._headers(call, accept)
        return _http1.written(call.method, self.prefix + BASE + call.path, headers, call.body)

    def _headers(self, call: Call[Any], accept: str | None) -> Iterator[tuple[str, str]]:
        yield "host", self.authority
        yield "user-agent", USER_AGENT
        if accept is not None:
            yield "accept", accept
        if call.body:
            yield "content-type", call.content_type
        if self.bearer is not None:
            yield "authorization", self.bearer
        if call.request_id is not None:
            yield "idempotency-key", call.request_id
        yield from call.headers


def _address(text: str) -> tuple[str, str, int, str, str]:
    no_address = f"{_shown(text)!r} is not the address of a server; write http://host:port"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        # What it says may quote what we do not show.
        raise ValueError(no_address) from None
    bad = parts.scheme not in ("http", "https") or not host or "@" in parts.netloc
    if bad or parts.query or parts.fragment or any(c.isspace() for c in text):
        raise ValueError(no_address)
    assert host is not None
    port = port or (7117 if parts.scheme == "http" else 443)
    shown = f"[{host}]" if ":" in host else host
    return parts.scheme, host, port, f"{shown}:{port}", parts.path.rstrip("/")


def _shown(text: str) -> str:
    """An address without what stands before the host, which may be a password."""
    _, at, host = text.rpartition("@")
    return f"…@{host}" if at else text


def _token_of_environment() -> str | None:
    """WINDROW_TOKEN, or what the file says that WINDROW_TOKEN_FILE names."""
    token = os.environ.get("WINDROW_TOKEN")
    file = os.environ.get("WINDROW_TOKEN_FILE")
    if not token and file:
        token = Path(file).read_text(encoding="utf-8").strip()
        if not token:
            raise ValueError("the file that WINDROW_TOKEN_FILE names is empty")
    return token or None


def _checked(token: str) -> str:
    if not all(0x21 <= ord(letter) <= 0x7E for letter in token):
        raise ValueError("a token is printable ASCII without spaces")
    return token
