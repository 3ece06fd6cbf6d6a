"""Who may talk to the studio: Host, Origin and token of every request, and what pages may load."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Content-Security-Policy of the studio's page: its own files, nothing inline, nothing foreign."""
FRAMED = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
"""Policy of reports shown inside the page: an origin of their own, no request to anybody."""

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_ENTRY = "Open the address that minidyn printed when it started: it holds the token of this studio."


def is_loopback(host: str) -> bool:
    """Return whether an address that is bound is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """Pass on requests of the page alone.

    A request needs a Host of this machine (else a foreign name could be bound to the address), no
    foreign Origin, and the token: once in the address, then in a cookie that scripts cannot read
    and that no other site can send.
    """

    def __init__(self, app: App, host: str) -> None:
        self.app = app
        self.host = host
        self.token = secrets.token_urlsafe(32)
        self.cookie = f"minidyn_{secrets.token_hex(4)}"  # cookies of all ports share one place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, refuse it, or exchange the token for a cookie."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # the studio has no sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _headers(scope)
        refusal = self._refusal(scope["method"], headers)
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if refusal is None and any(self._is_token(one) for one in given):
            await _answer(send, 303, "", [(b"location", b"/"), (b"set-cookie", self._set_cookie())])
            return
        if refusal is None and not any(self._is_token(one) for one in self._cookies(headers)):
            refusal = (403, _ENTRY)
        if refusal is not None:
            await _answer(send, *refusal)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", []))
                has_policy = any(name == b"content-security-policy" for name, _ in given)
                policy = [] if has_policy else [(b"content-security-policy", POLICY.encode())]
                message["headers"] = [*given, *policy, *_HEADERS]
            await send(message)

        await self.app(scope, receive, guarded)

    def _refusal(self, method: str, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        """Return status and words of a request that is refused whoever sends it."""
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._is_here(hosts[0]):
            return 421, "This studio answers under the address that it printed alone."
        origins = headers.get("origin", [])
        if any(urlsplit(one).netloc != hosts[0] or "://" not in one for one in origins):
            return 403, "Another site's page may not talk to this studio."
        if any(one not in ("same-origin", "none") for one in headers.get("sec-fetch-site", [])):
            return 403, "Another site's page may not talk to this studio."
        if method not in ("GET", "HEAD") and not origins:
            return 403, "A request that changes something must say its Origin."
        return None

    def _is_here(self, host: str) -> bool:
        """Return whether a Host is this machine, whatever the port: a tunnel has another one."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in ("localhost", self.host.strip("[]")) or (is_loopback(name)):
            return True
        if is_loopback(self.host):
            return False
        try:  # bound to all addresses: numbers cannot be rebound, names can
            return ipaddress.ip_address(name) is not None
        except ValueError:
            return name == socket.gethostname().lower()

    def _cookies(self, headers: dict[str, list[str]]) -> Iterable[str]:
        for line in headers.get("cookie", []):
            try:
                found = SimpleCookie(line)
            except CookieError:
                continue
            if self.cookie in found:
                yield found[self.cookie].value

    def _set_cookie(self) -> bytes:
        return f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict".encode()

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


async def _answer(
    send: Send, status: int, text: str, more: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send a short answer as plain text."""
    kind = (b"content-type", b"text/plain; charset=utf-8")
    headers = [kind, (b"content-security-policy", POLICY.encode()), *_HEADERS, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
