"""The FastAPI app that Airflow mounts under `/slotgroups`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from airflow_slotgroups import __version__
from airflow_slotgroups.api.auth import signed_in
from airflow_slotgroups.api.gate import Gate
from airflow_slotgroups.api.routes import explain, groups, health, me, past, requests, static, transfer
from airflow_slotgroups.api.schemas import ErrorOut
from airflow_slotgroups.domain import errors

PREFIX = "/api/v1"

STATUS_OF: dict[type[errors.SlotGroupsError], int] = {
    errors.UnknownGroupError: 404,
    errors.UnknownPoolError: 404,
    errors.UnknownTaskInstanceError: 404,
    errors.NothingFoundError: 404,
    errors.InvalidNameError: 422,
    errors.InvalidValueError: 422,
    errors.UnreadableFileError: 422,
    errors.ImportRefusedError: 422,
    errors.BusyError: 503,
    errors.TablesMissingError: 503,
}
"""All others are conflicts with what is (409)."""

REFUSALS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    413: "Request Entity Too Large",
    422: "Unprocessable Entity",
    503: "Service Unavailable",
}
"""Said here, since Python has other words for some of them from version to version."""


def make_app() -> FastAPI:
    """Put the app together: who asks is known and of our own origin before any route is reached."""
    app = FastAPI(
        title="Slot groups",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # Relative to where the document is, so right under any path that Airflow is served from.
        servers=[{"url": "../.."}],
        dependencies=[Depends(signed_in)],
    )
    app.add_middleware(Gate)
    v1 = APIRouter(prefix=PREFIX, responses=refusals())
    for part in (groups, requests, past, transfer, health, explain, me):
        v1.include_router(part.router)
    app.include_router(v1)
    app.include_router(static.router)
    app.add_exception_handler(errors.SlotGroupsError, answer_error)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(HTTPException, answer_refusal)
    add_docs(app)
    return app


def refusals() -> dict[int | str, dict[str, Any]]:
    """Describe what every route may answer."""
    return {code: {"model": ErrorOut, "description": words} for code, words in REFUSALS.items()}


def add_docs(app: FastAPI) -> None:
    """The OpenAPI document and the interactive docs, for the signed-in alone, as every route."""

    @app.get(f"{PREFIX}/openapi.json", include_in_schema=False)
    def openapi_document() -> JSONResponse:
        return JSONResponse(app.openapi())

    @app.get(f"{PREFIX}/docs", include_in_schema=False)
    def interactive_docs() -> HTMLResponse:
        return get_swagger_ui_html(openapi_url="openapi.json", title=app.title)


async def answer_error(_request: Request, error: Any) -> JSONResponse:
    """Answer with what is wrong and what to do."""
    status = next((code for kind, code in STATUS_OF.items() if isinstance(error, kind)), 409)
    body = ErrorOut(detail=error.message, remedy=error.remedy, can_retry=error.can_retry)
    return JSONResponse(body.model_dump(), status_code=status)


async def answer_refusal(_request: Request, error: Any) -> JSONResponse:
    """Answer in the same form where there is no such route, or a route refuses by itself."""
    body = ErrorOut(detail=str(error.detail))
    return JSONResponse(body.model_dump(), error.status_code, error.headers)


async def answer_invalid(_request: Request, error: Any) -> JSONResponse:
    """Answer with where the request is wrong, and not with what stood there: that may be no text at all."""
    faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
    detail = "; ".join(faults).encode(errors="replace").decode()
    body = ErrorOut(detail=detail, remedy="see the OpenAPI document")
    return JSONResponse(body.model_dump(), status_code=422)


app = make_app()
