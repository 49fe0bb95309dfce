"""A Flask-AppBuilder view, for those who live in it: the same services, and the roles of FAB's own users.

Off unless `[slotgroups] fab_view` is set; imported where Airflow serves such views alone.

It declares no permissions: those on pools and DAGs decide, as everywhere. A view that named "Pools" as its resource
would make FAB delete whichever permissions on pools it does not list itself.

It uses no Flask session: the app that Airflow serves plugins' views from does not share that of the sign-in, and
its cookie would overwrite that one. Who asks is known by Airflow's own token, and writes must come from our own page.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.core_api.security import resolve_user_from_token
from airflow.providers.fab.www.app import csrf
from flask import g, redirect, request, url_for
from flask_appbuilder import BaseView, expose
from starlette.exceptions import HTTPException

from airflow_slotgroups.api.auth import (
    Method,
    check_pool,
    check_requests,
    may_act,
    may_pool,
    name_of,
    visible_to,
)
from airflow_slotgroups.api.gate import check_origin
from airflow_slotgroups.domain.errors import InvalidValueError, SlotGroupsError
from airflow_slotgroups.domain.states import Mode, Strategy
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.services import groups, overview, queue, requests

PAGE = 100
MODES = {"pause": Mode.PAUSED, "resume": Mode.ACTIVE, "bypass": Mode.BYPASS}
LEVERS: dict[str, Callable[..., Any]] = {
    "force-start": requests.force_start,
    "suspend": requests.suspend,
    "unsuspend": requests.unsuspend,
}


Handler = Callable[[Any], Any]


def serves(path: str, method: Method, verbs: tuple[str, ...] = ("GET",)) -> Callable[[Handler], Handler]:
    """Expose a method of a view to those who have a permission on the pool that is named, or on pools as such."""

    def decorate(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def guarded(view: Any) -> Any:
            try:
                g.slotgroups_user = asyncio.run(
                    resolve_user_from_token(request.cookies.get(COOKIE_NAME_JWT_TOKEN))
                )
            except HTTPException:
                return redirect(get_auth_manager().get_url_login(next_url=request.url))
            try:
                if request.method == "POST":
                    check_origin(cast(Any, request))  # asks for headers alone
                check_pool(me(), method, request.values.get("pool"))
                return handler(view)
            except HTTPException as error:
                return view.render_template("slotgroups/refused.html", detail=error.detail), error.status_code
            except SlotGroupsError as error:
                return view.render_template("slotgroups/refused.html", detail=error), 409

        exposed: Handler = expose(path, verbs)(guarded)
        return exposed

    return decorate


def me() -> Any:
    """The user who asks."""
    return g.slotgroups_user


class SlotGroupsView(BaseView):  # type: ignore[misc]
    """List, edit, queue and levers."""

    route_base = "/slotgroups"
    default_view = "list"
    template_folder = str(Path(__file__).parent / "fab_templates")

    @serves("/list/", "GET")
    def list(self) -> Any:
        """All groups that may be seen, or those whose name or description is searched for."""
        search = request.args.get("search", "")
        part = search.casefold()
        found = [
            view
            for view in overview.overview()
            if part in f"{view.status.pool} {view.status.description}".casefold()
            and may_pool(me(), "GET", view.status.pool)
        ]
        return self.render_template(
            "slotgroups/list.html",
            groups=found,
            search=search,
            may_see=visible_to(me()),
            may_change=lambda pool: may_pool(me(), "PUT", pool),
        )

    @serves("/queue/", "GET")
    def queue(self) -> Any:
        """Holders and waiters of a group, with the levers on those that the user may change."""
        pool = request.args.get("pool", "")
        page = max(0, request.args.get("page", 0, type=int))
        status = groups.get_group(pool)
        waiting = queue.waiters_of(pool, PAGE, page * PAGE)
        holding = queue.holders_of(pool, PAGE)
        return self.render_template(
            "slotgroups/queue.html",
            status=status,
            waiting=waiting,
            holding=holding.entries,
            page=page,
            last_page=max(0, (waiting.total - 1) // PAGE),
            may_see=visible_to(me()),
            may_act=may_act(me()),
            may_change=may_pool(me(), "PUT", pool),
            modes=list_of_modes(status.mode),
        )

    @serves("/edit/", "PUT", ("GET", "POST"))
    def edit(self) -> Any:
        """Change the settings of a group."""
        pool = request.values.get("pool", "")
        if request.method == "POST":
            groups.change_existing(pool, change_of(request.form), who=name_of(me()), comment=comment())
            return redirect(url_for("SlotGroupsView.queue", pool=pool))
        return self.render_template(
            "slotgroups/edit.html",
            status=groups.get_group(pool),
            strategies=[strategy.value for strategy in Strategy],
        )

    @serves("/mode/", "PUT", ("POST",))
    def mode(self) -> Any:
        """Pause a group, lift its limit, or make it active again."""
        pool, verb = request.form.get("pool", ""), request.form.get("verb", "")
        if verb not in MODES:
            raise InvalidValueError("verb", verb, f"give one of {', '.join(MODES)}")
        groups.set_mode(pool, MODES[verb], who=name_of(me()), comment=comment())
        return redirect(url_for("SlotGroupsView.queue", pool=pool))

    @serves("/act/", "PUT", ("POST",))
    def act(self) -> Any:
        """Pull a lever on the waiters that are ticked."""
        pool, verb = request.form.get("pool", ""), request.form.get("verb", "")
        which = [Which(request_id=number) for number in request.form.getlist("request_id", type=int)]
        if not which:
            raise InvalidValueError("requests", "none", "tick one at least")
        dags = requests.dags_of(pool, which)
        check_requests(me(), dags)
        pull(pool, verb, which, dags)
        return redirect(url_for("SlotGroupsView.queue", pool=pool))


def pull(pool: str, verb: str, which: list[Which], dags: set[str]) -> None:
    """Do what the verb says to those that are meant."""
    who = name_of(me())
    if verb in LEVERS:
        LEVERS[verb](pool, which, who=who, comment=comment(), dags=dags)
    elif verb in ("prioritize", "to-top"):
        priority = None if verb == "to-top" else whole("priority")
        requests.prioritize(pool, which, priority, who=who, comment=comment(), dags=dags)
    else:
        raise InvalidValueError("verb", verb, f"give one of {', '.join([*LEVERS, 'prioritize', 'to-top'])}")


def list_of_modes(mode: Mode) -> list[str]:
    """The verbs that make sense in a mode."""
    if mode is Mode.DISSOLVING:
        return []
    return ["pause", "bypass"] if mode is Mode.ACTIVE else ["resume"]


def change_of(form: Any) -> groups.GroupChange:
    """Translate the form."""
    strategy = form.get("strategy", "")
    if strategy not in {one.value for one in Strategy}:
        raise InvalidValueError("strategy", strategy, "give strict or backfill")
    return groups.GroupChange(
        slots=whole("slots"),
        description=form.get("description", ""),
        strategy=Strategy(strategy),
        max_passes=whole("max_passes"),
        ageing_seconds=whole("ageing_seconds"),
    )


def whole(field: str) -> int:
    """Read a number of the form."""
    text = request.form.get(field, "")
    try:
        return int(text)
    except ValueError:
        raise InvalidValueError(field, text, "give a whole number") from None


def comment() -> str | None:
    """What the user wrote."""
    return request.form.get("comment", "").strip() or None


def appbuilder_views() -> list[dict[str, Any]]:
    """What Airflow registers."""
    for name in ("edit", "mode", "act"):
        csrf.exempt(f"{__name__}.{name}")  # That check needs a session; ours needs none.
    return [{"name": "Slot Groups", "category": "Admin", "view": SlotGroupsView()}]
