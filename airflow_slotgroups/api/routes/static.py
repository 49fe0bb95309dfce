"""The page's one file."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, status
from fastapi.responses import FileResponse

from airflow_slotgroups.api.bundle import BUNDLE, NAME

router = APIRouter()

FOR_EVER = "private, max-age=31536000, immutable"


@router.get(f"/static/{NAME}", include_in_schema=False)
def bundle(v: str | None = None) -> FileResponse:
    """Serve the bundle; one that is asked for by its version never changes."""
    if not BUNDLE.is_file():
        raise HTTPException(status.HTTP_404_NOT_FOUND, "The page was not built")
    headers = {"Cache-Control": FOR_EVER if v else "no-cache"}
    return FileResponse(BUNDLE, media_type="text/javascript", headers=headers)
