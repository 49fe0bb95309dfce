"""Who may do what: the permissions of pools and DAGs, asked of Airflow's auth manager (DESIGN section 6).

Airflow mounts an app of ours bare; everything here must be asked for by the app itself. Who asks is found out
at the gate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    DagAccessEntity,
    DagDetails,
    PoolDetails,
)
from airflow.api_fastapi.core_api.security import bearer_scheme, oauth2_scheme
from airflow.models.dag import DagModel
from airflow.models.pool import Pool
from fastapi import Depends, HTTPException, Request, status

from airflow_slotgroups.domain.discretion import MaySee

Method = Literal["GET", "POST", "PUT", "DELETE"]


def signed_in(
    request: Request,
    _token: Annotated[Any, Depends(oauth2_scheme)],
    _bearer: Annotated[Any, Depends(bearer_scheme)],
) -> Any:
    """Return the user that the gate has let in; the schemes stand here for the OpenAPI document."""
    return request.state.slotgroups_user


User = Annotated[Any, Depends(signed_in)]


def name_of(user: Any) -> str:
    """The name for the audit log."""
    return str(user.get_name())


def forbidden(detail: str) -> HTTPException:
    """The answer to who may not."""
    return HTTPException(status.HTTP_403_FORBIDDEN, detail)


# Pools.


def require_pool(method: Method) -> Any:
    """Require a pool permission for the pool in the path, or for pools as such."""

    def check(request: Request, user: User) -> None:
        check_pool(user, method, request.path_params.get("pool"))

    return Depends(check)


def check_pool(user: Any, method: Method, pool: str | None) -> None:
    """Refuse with 403 who lacks the permission."""
    if not may_pool(user, method, pool):
        raise forbidden(f"You may not {method} pool '{pool}'" if pool else f"You may not {method} pools")


def may_pool(user: Any, method: Method, pool: str | None, team: str | None = None) -> bool:
    """Tell whether a user has a pool permission.

    :param team: as if the pool were that team's; None for the team whose it is.
    """
    owner = team or (Pool.get_team_name(pool) if pool else None)
    details = PoolDetails(name=pool, team_name=owner)
    return bool(get_auth_manager().is_authorized_pool(method=method, details=details, user=user))


def readable_pools(user: Any) -> Callable[[str], bool]:
    """Return a test of which pools a user may see: those of other teams he may not."""
    return functools.cache(lambda pool: may_pool(user, "GET", pool))


# DAGs.


def may_dag(user: Any, method: Method, dag_id: str, entity: DagAccessEntity | None = None) -> bool:
    """Tell whether a user has a permission on a DAG, or on an entity of it."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    manager = get_auth_manager()
    return bool(manager.is_authorized_dag(method=method, access_entity=entity, details=details, user=user))


def may_act(user: Any) -> Callable[[str], bool]:
    """Return a test of which DAGs' task instances a user may change, asked once a DAG."""
    return functools.cache(lambda dag_id: may_dag(user, "PUT", dag_id, DagAccessEntity.TASK_INSTANCE))


def check_requests(user: Any, dag_ids: Iterable[str]) -> None:
    """Refuse with 403 who may not change the task instances of one of the DAGs; it is named if he may see it."""
    acts = may_act(user)
    refused = sorted(dag_id for dag_id in set(dag_ids) if not acts(dag_id))
    if not refused:
        return
    may_see = visible_to(user)
    which = next((f"DAG '{dag_id}'" for dag_id in refused if may_see(dag_id)), "every DAG concerned")
    raise forbidden(f"You may not change task instances of {which}")


def check_readable(user: Any, dag_id: str) -> None:
    """Refuse with 403 who may not see the task instances of a DAG."""
    if not may_dag(user, "GET", dag_id, DagAccessEntity.TASK_INSTANCE):
        raise forbidden(f"You may not see task instances of DAG '{dag_id}'")


def require_audit_log() -> Any:
    """Require the permission to read the audit log."""

    def check(user: User) -> None:
        manager, entity = get_auth_manager(), DagAccessEntity.AUDIT_LOG
        if not manager.is_authorized_dag(method="GET", access_entity=entity, details=DagDetails(), user=user):
            raise forbidden("You may not read the audit log")

    return Depends(check)


def visible_to(user: Any) -> MaySee:
    """Return a test of which DAGs a user may see; the others are counted and not named.

    DAGs that are gone, and have left requests behind, are asked for one by one.
    """
    visible = get_auth_manager().get_authorized_dag_ids(user=user)
    return functools.cache(lambda dag_id: dag_id in visible or may_dag(user, "GET", dag_id))
