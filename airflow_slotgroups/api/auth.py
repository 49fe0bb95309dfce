"""Who may do what: the permissions of pools and DAGs, asked of Airflow's auth manager (DESIGN section 6).

Airflow mounts an app of ours bare; everything here must be asked for by the app itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    DagAccessEntity,
    DagDetails,
    PoolDetails,
)
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.models.pool import Pool
from fastapi import Depends, HTTPException, Request, status

Method = Literal["GET", "POST", "PUT", "DELETE"]
SAFE = ("GET", "HEAD", "OPTIONS")


def require_pool(method: Method) -> Any:
    """Require a pool permission for the pool in the path, or for pools as such."""

    def check(request: Request, user: GetUserDep) -> None:
        check_pool(user, method, request.path_params.get("pool"))

    return Depends(check)


def check_pool(user: Any, method: Method, pool: str | None) -> None:
    """Refuse with 403 who lacks the permission."""
    team = Pool.get_team_name(pool) if pool else None
    details = PoolDetails(name=pool, team_name=team)
    if not get_auth_manager().is_authorized_pool(method=method, details=details, user=user):
        raise HTTPException(
            status.HTTP_403_FORBIDDEN, f"You may not {method} pool '{pool}'" if pool else "Forbidden"
        )


def check_requests(user: Any, dag_ids: Iterable[str]) -> None:
    """Refuse with 403 who may not change the task instances of one of the DAGs."""
    for dag_id in sorted(set(dag_ids)):
        details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
        may = get_auth_manager().is_authorized_dag(
            method="PUT", access_entity=DagAccessEntity.TASK_INSTANCE, details=details, user=user
        )
        if not may:
            raise HTTPException(
                status.HTTP_403_FORBIDDEN, f"You may not change task instances of DAG '{dag_id}'"
            )


def may_act(user: Any) -> Callable[[str], bool]:
    """Return a test of which DAGs' task instances a user may change, asked once a DAG."""

    @functools.cache
    def may(dag_id: str) -> bool:
        try:
            check_requests(user, [dag_id])
        except HTTPException:
            return False
        return True

    return may


def check_readable(user: Any, dag_id: str) -> None:
    """Refuse with 403 who may not see the task instances of a DAG."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    may = get_auth_manager().is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.TASK_INSTANCE, details=details, user=user
    )
    if not may:
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"You may not see DAG '{dag_id}'")


def visible_to(user: Any) -> Callable[[str], bool]:
    """Return a test of which DAGs a user may see; the others are counted and not named."""
    visible = get_auth_manager().get_authorized_dag_ids(user=user)
    return lambda dag_id: dag_id in visible


def same_origin(request: Request) -> None:
    """Refuse writes that a page of another origin makes with the user's cookie.

    A request that brings its own token can not be forged so. Browsers send `Origin` with every write.
    """
    if request.method in SAFE or "authorization" in request.headers:
        return
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc not in own_hosts(request):
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"Writes from '{origin}' are refused")


def own_hosts(request: Request) -> set[str]:
    """The names under which a browser may know us: as it was asked, and as [api] base_url says."""
    configured = urlsplit(conf.get("api", "base_url", fallback="")).netloc
    return {request.headers.get("host", ""), configured} - {""}


def signed_in(user: GetUserDep) -> Any:
    """Require a user, and nothing more."""
    return user


def name_of(user: Any) -> str:
    """The name for the audit log."""
    return str(user.get_name())


User = Annotated[Any, Depends(signed_in)]
