"""The one door of the app: nothing behind it is reached without a user, from a foreign page, or by a huge body.

It stands before routing, so that unknown paths, wrong methods and broken bodies say nothing to strangers either.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from airflow.configuration import conf
from fastapi import HTTPException, Request, status
from fastapi.responses import JSONResponse

from airflow_slotgroups.api.schemas import ErrorOut

SAFE = ("GET", "HEAD", "OPTIONS")
MOST_BYTES = 1024 * 1024
"""Of a body; the longest that makes sense is a tenth of it."""
PORTS = {"http": 80, "https": 443}


class Gate:
    """Middleware that lets a request in, or answers it."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let HTTP in that may come in; there is nothing but HTTP here."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive)
        try:
            await let_in(request)
            body = await read_body(request)
        except HTTPException as error:
            answer = JSONResponse(
                ErrorOut(detail=str(error.detail)).model_dump(), error.status_code, error.headers
            )
            await answer(scope, receive, send)
            return
        await self.app(scope, replay(body, receive), send)


async def let_in(request: Request) -> None:
    """Find out who asks, and keep it for the routes; refuse strangers and foreign pages."""
    token = await bearer_scheme(request)
    request.state.slotgroups_user = await get_user(request, None, token)
    if request.method not in SAFE and (token is None or token_is_given_to_all()):
        check_origin(request)
    if "\x00" in request.url.path or "%00" in request.url.query:
        raise HTTPException(status.HTTP_400_BAD_REQUEST, "No name has a NUL in it")


def token_is_given_to_all() -> bool:
    """Tell whether Airflow itself gives every request a token, so that one proves nothing."""
    return conf.getboolean("core", "simple_auth_manager_all_admins", fallback=False)


def check_origin(request: Request) -> None:
    """Refuse a write that a page of another origin makes with the user's cookie.

    Browsers send `Origin` with every write. Whoever writes with a cookie and without a browser says so by a
    header that no page of another origin can send.
    """
    origin = request.headers.get("origin")
    if origin is None:
        if request.headers.get("sec-fetch-site") == "same-origin":
            return
        if token_is_given_to_all() and "sec-fetch-site" not in request.headers:
            return
        raise HTTPException(
            status.HTTP_403_FORBIDDEN, "A write with a cookie needs the header Origin; or bring a token"
        )
    if not is_own(origin, request):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Writes from pages of another origin are refused")


def is_own(origin: str, request: Request) -> bool:
    """Tell whether an origin is ours: as the request was sent, or as [api] base_url says behind a proxy.

    A proxy that ends TLS leaves the host and changes the scheme, so of the request's own host the scheme is
    not compared. What a proxy says in `X-Forwarded-Host` anybody may say, and is not read.
    """
    theirs = place_of(origin)
    if theirs is None:
        return False
    here = place_of(f"{theirs[0]}://{request.headers.get('host', '')}")
    return theirs in (here, place_of(conf.get("api", "base_url", fallback="")))


def place_of(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an origin; None when it is none, as `null`."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return None
    if parts.scheme not in PORTS or not parts.hostname or port is None:
        return None
    return parts.scheme, parts.hostname, port


async def read_body(request: Request) -> bytes:
    """Read the body, as far as it is bearable."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            detail = f"The body is longer than {MOST_BYTES} bytes"
            raise HTTPException(413, detail)
    return bytes(body)


def replay(body: bytes, receive: Any) -> Any:
    """Give the app the body that was read, then whatever comes after it."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Any:
        return messages.pop() if messages else await receive()

    return next_message
