"""What the commands do: read arguments, call a service, print."""

from __future__ import annotations

import functools
import getpass
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.cli.simple_table import AirflowConsole
from airflow.utils import cli as cli_utils
from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded
from rich.markup import escape

from airflow_slotgroups.airflow_core.config import CoordinatorPlace, coordinator_place
from airflow_slotgroups.domain.errors import ImportRefusedError, InvalidValueError, SlotGroupsError
from airflow_slotgroups.domain.history import Bucket
from airflow_slotgroups.domain.snapshot import UNLIMITED
from airflow_slotgroups.domain.states import Mode, Strategy
from airflow_slotgroups.domain.which import Which
from airflow_slotgroups.services import groups, health, history, queue, requests, transfer
from airflow_slotgroups.services.explain import explain_task
from airflow_slotgroups.services.transfer import Done
from airflow_slotgroups.services.where_used import where_used

Command = Callable[[Namespace], None]

FOR_MACHINES = ("reason_code", "request_id", "kind", "notice")
FOR_PEOPLE = ("table", "plain")

logged: Callable[[Command], Command] = cli_utils.action_cli
"""Airflow's decorator, which has no annotations: the command is kept in the audit log."""


def readable(function: Command) -> Command:
    """End with one clear line, and code 1, on an error that a person is meant to read."""

    @functools.wraps(function)
    def wrapped(args: Namespace) -> None:
        try:
            function(args)
        except SlotGroupsError as error:
            raise SystemExit(f"Error: {error}") from None

    return wrapped


def reading(function: Command) -> Command:
    """Dress a command that changes nothing, as `airflow pools` does its own."""
    return suppress_logs_and_warning(providers_configuration_loaded(readable(function)))


def writing(function: Command) -> Command:
    """Dress a command that changes something: Airflow keeps the call in its audit log as well."""
    return logged(reading(function))


NO_GROUPS = "There is no slot group; make one with 'airflow slotgroups set'"
FOR_NOTHING = {"free": "no limit"}
"""What is shown in place of nothing, by column."""
USUAL = {"map_index": "-1", "try_number": "1"}
"""What goes without saying in a table that has to fit a terminal, by column."""


def show(rows: Sequence[dict[str, Any]], output: str, nothing: str = "") -> None:
    """Print rows; JSON and YAML keep numbers as numbers.

    :param nothing: what to tell people when there are none.
    """
    console = AirflowConsole()
    if nothing and not rows and output in FOR_PEOPLE:
        print(nothing)
    elif output == "json":
        console.print_as_json(rows)  # type: ignore[arg-type]  # annotated as dict, takes what json takes
    elif output == "yaml":
        console.print_as_yaml(rows)  # type: ignore[arg-type]  # annotated as dict, takes what yaml takes
    else:
        markup = escape if output == "table" else str
        shown = [for_eyes(row, markup) for row in rows]
        console.print_as(narrowed(shown) if output == "table" else shown, output)


def for_eyes(row: dict[str, Any], markup: Callable[[str], str]) -> dict[str, str]:
    """Leave out what is for machines, and show nothing where there is nothing.

    :param markup: keeps text in brackets from being taken for a style, as in "[slotgroups] coordinator".
    """
    shown = {key: FOR_NOTHING.get(key, "") if value is None else str(value) for key, value in row.items()}
    return {key: markup(text) for key, text in shown.items() if key not in FOR_MACHINES}


def narrowed(rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Leave out columns that say of each row what goes without saying."""
    idle = {name for name, usual in USUAL.items() if all(row.get(name) == usual for row in rows)}
    return [{name: text for name, text in row.items() if name not in idle} for row in rows]


def change_of(args: Namespace) -> groups.GroupChange:
    """Read the settings from the arguments; `adopt` has neither slots nor description."""
    return groups.GroupChange(
        slots=getattr(args, "slots", None),
        description=getattr(args, "description", None),
        strategy=Strategy(args.strategy) if args.strategy else None,
        max_passes=args.max_passes,
        ageing_seconds=args.ageing_seconds,
    )


def group_row(status: groups.GroupStatus) -> dict[str, Any]:
    """One line of `list` and `get`."""
    return {
        "pool": status.pool,
        "slots": status.slots,
        "mode": status.mode.value,
        "strategy": status.strategy.value,
        "ageing_seconds": status.ageing_seconds,
        "used": status.used,
        "free": status.free,
        "overdraft": status.overdraft,
        "waiting": status.waiting,
        "description": status.description,
        "notice": status.notice,
    }


@reading
def list_command(args: Namespace) -> None:
    """List the slot groups."""
    show_groups(groups.list_groups(), args.output)


@reading
def get_command(args: Namespace) -> None:
    """Show one slot group."""
    show_groups([groups.get_group(args.pool)], args.output)


def show_groups(found: Sequence[groups.GroupStatus], output: str) -> None:
    """Print groups, and below the table what is to be known of some of them."""
    show([group_row(status) for status in found], output, NO_GROUPS)
    for status in found if output == "table" else ():
        if status.notice:
            print(f"{status.pool}: {status.notice}")


@writing
def set_command(args: Namespace) -> None:
    """Make a slot group, or change one."""
    made = groups.set_group(args.pool, change_of(args), who=getpass.getuser(), comment=args.comment)
    print(f"Slot group '{args.pool}' {'made' if made else 'changed'}: {in_slots(args.slots)}")


def in_slots(slots: int) -> str:
    """A size in words."""
    if slots == UNLIMITED:
        return "no limit"
    return "1 slot" if slots == 1 else f"{slots} slots"


@writing
def delete_command(args: Namespace) -> None:
    """Delete a slot group."""
    dags = [dag.dag_id for dag in where_used(args.pool)]
    groups.delete(args.pool, who=getpass.getuser(), comment=args.comment)
    if args.pool == groups.DEFAULT_POOL:
        print(f"Slot group '{args.pool}' deleted; the pool itself stays, Airflow needs it")
        return
    print(f"Slot group '{args.pool}' deleted, and its pool")
    if dags:
        print(f"Tasks of {named(dags)} name it still: they wait until there is a pool of that name again")


def named(dags: Sequence[str], most: int = 5) -> str:
    """Name some DAGs, and count the rest."""
    more = f" and {len(dags) - most} more DAGs" if len(dags) > most else ""
    return ", ".join(dags[:most]) + more


@writing
def adopt_command(args: Namespace) -> None:
    """Turn an ordinary pool into a slot group."""
    status = groups.adopt(args.pool, change_of(args), who=getpass.getuser(), comment=args.comment)
    print(f"Pool '{args.pool}' is a slot group now: {status.used} of {status.slots} slots in use")
    for line in groups.what_adopting_means(status):
        print(line)


@writing
def dissolve_command(args: Namespace) -> None:
    """Turn a slot group back into an ordinary pool."""
    done = groups.dissolve(
        args.pool, who=getpass.getuser(), end_sections=args.end_sections, comment=args.comment
    )
    print(f"'{args.pool}' is an ordinary pool again")
    if not done:
        print("Some of its tasks were locked; the coordinator moves them within seconds")


@reading
def queue_command(args: Namespace) -> None:
    """Show holders and waiters."""
    if args.limit < 1:
        raise InvalidValueError("--limit", args.limit, "give 1 or more")
    entries = queue.queue_of(args.pool, args.limit)
    show([queue_row(entry) for entry in entries], args.output, f"Nobody holds or waits in '{args.pool}'")
    for entry in entries if args.output == "table" else ():
        if entry.notice and entry.notice not in entry.reason:
            print(f"{entry.dag_id}.{entry.task_id} of {entry.run_id}: {entry.notice}")


def queue_row(entry: queue.QueueEntry) -> dict[str, Any]:
    """One line of `queue`."""
    return {
        "position": entry.position,
        "request_id": entry.request_id,
        "state": entry.state.value,
        "dag_id": entry.dag_id,
        "run_id": entry.run_id,
        "task_id": entry.task_id,
        "map_index": entry.map_index,
        "try_number": entry.try_number,
        "slots": entry.slots,
        "priority": entry.priority,
        "seconds": round(entry.seconds, 1),
        "reason_code": entry.reason_code,
        "reason": entry.reason,
        "notice": entry.notice,
    }


@writing
def pause_command(args: Namespace) -> None:
    """Let nobody in."""
    change_mode(args, Mode.PAUSED)


@writing
def resume_command(args: Namespace) -> None:
    """Let waiters in again."""
    change_mode(args, Mode.ACTIVE)


@writing
def bypass_command(args: Namespace) -> None:
    """Lift the limit."""
    change_mode(args, Mode.BYPASS)


def change_mode(args: Namespace, mode: Mode) -> None:
    """Change the mode of a group, and say what that means now."""
    status = groups.set_mode(args.pool, mode, who=getpass.getuser(), comment=args.comment)
    limit = "no limit" if status.free is None else in_slots(status.slots)
    state = "in bypass" if mode is Mode.BYPASS else mode.value
    print(f"Slot group '{args.pool}' is {state}: {status.used} of {limit} in use, {status.waiting} waiting")


def which_of(args: Namespace) -> list[Which]:
    """Read which requests are meant; all of them only if that is said."""
    which = Which(args.dag_id, args.task_id, args.run_id, args.map_index, args.request_id)
    if which == Which() and not args.all:
        raise SlotGroupsError(
            "nothing says which requests are meant",
            "give --dag-id, --task-id, --run-id, --map-index or --request-id, or --all for every one that waits",
        )
    return [which]


@writing
def force_start_command(args: Namespace) -> None:
    """Let waiters in at once; what is printed names what still holds them."""
    entries = requests.force_start(args.pool, which_of(args), who=getpass.getuser(), comment=args.comment)
    show([queue_row(entry) for entry in entries], args.output)


@writing
def prioritize_command(args: Namespace) -> None:
    """Give waiters another priority."""
    if (args.priority is None) != args.top:
        given = "both --priority and --top are" if args.top else "neither --priority nor --top is"
        raise SlotGroupsError(f"{given} given", "give one of them")
    who = getpass.getuser()
    entries = requests.prioritize(args.pool, which_of(args), args.priority, who=who, comment=args.comment)
    show([queue_row(entry) for entry in entries], args.output)


@writing
def suspend_command(args: Namespace) -> None:
    """Pass waiters over."""
    entries = requests.suspend(args.pool, which_of(args), who=getpass.getuser(), comment=args.comment)
    show([queue_row(entry) for entry in entries], args.output)


@writing
def unsuspend_command(args: Namespace) -> None:
    """Let suspended waiters take part again."""
    entries = requests.unsuspend(args.pool, which_of(args), who=getpass.getuser(), comment=args.comment)
    show([queue_row(entry) for entry in entries], args.output)


@reading
def explain_command(args: Namespace) -> None:
    """Say why a task instance does not run."""
    map_index = -1 if args.map_index is None else args.map_index
    answer = explain_task(args.dag_id, args.task_id, args.run_id, map_index)
    checks = [vars(check) for check in answer.checks]
    if args.output in ("json", "yaml"):
        show([{"sentence": answer.sentence, "name": answer.name, "checks": checks}], args.output)
        return
    print(f"{args.dag_id}.{args.task_id}: {answer.sentence}")
    if not checks:
        return
    print()
    show(
        [
            {
                "holds": "yes" if c["holds"] else "",
                "limit": c["name"],
                "value": c["value"],
                "use": c["use"],
                "text": c["text"],
            }
            for c in checks
        ],
        args.output,
    )


@reading
def history_command(args: Namespace) -> None:
    """Show what has been."""
    if args.requests:
        ended = history.requests_of(args.pool, args.hours, args.limit)
        show([ended_row(request) for request in ended], args.output, f"No request of '{args.pool}' has ended")
    else:
        buckets = history.history_of(args.pool, args.hours, args.buckets)
        show([bucket_row(bucket) for bucket in buckets], args.output)


def bucket_row(bucket: Bucket) -> dict[str, Any]:
    """One line of `history`."""
    return {
        "from": moment(bucket.start),
        "granted": bucket.granted,
        "wait_median": in_seconds(bucket.wait.median),
        "wait_p95": in_seconds(bucket.wait.p95),
        "hold_median": in_seconds(bucket.hold.median),
        "hold_p95": in_seconds(bucket.hold.p95),
        "most_used": bucket.most_used,
        "most_waiting": bucket.most_waiting,
        "size": bucket.size,
    }


def ended_row(request: history.EndedRequest) -> dict[str, Any]:
    """One line of `history --requests`."""
    return {
        "ended": moment(request.ended_at),
        "request_id": request.request_id,
        "kind": request.kind.value,
        "dag_id": request.dag_id,
        "run_id": request.run_id,
        "task_id": request.task_id,
        "map_index": request.map_index,
        "try_number": request.try_number,
        "slots": request.slots,
        "priority": request.priority,
        "state": request.state.value,
        "came_in_by": request.admission,
        "end_reason": request.end_reason,
        "waited": in_seconds(request.waited),
        "held": in_seconds(request.held),
        "comment": request.comment,
    }


def moment(when: datetime) -> str:
    """A moment to the second, in UTC."""
    return when.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_seconds(duration: timedelta | None) -> float | None:
    """A duration as a number of seconds."""
    return None if duration is None else round(duration.total_seconds(), 1)


@writing
def import_command(args: Namespace) -> None:
    """Make and change groups as a file says."""
    who = getpass.getuser()
    try:
        done = transfer.import_file(args.file, who=who, take_pools=args.adopt, comment=args.comment)
    except ImportRefusedError as error:
        lines = "".join(f"\n  {problem}" for problem in error.problems)
        raise SystemExit(f"Error: {error.file}: nothing was imported; mend the file:{lines}") from None
    for name, what in done.items():
        mode = Mode.ACTIVE if what is Done.UNCHANGED else groups.get_group(name).mode
        rest = "" if mode is Mode.ACTIVE else f"; its mode is {mode}"
        print(f"Slot group '{name}' {what}{rest}")
    if not done:
        print(f"{args.file} names no group: nothing to import")


@reading
def export_command(args: Namespace) -> None:
    """Write all groups to a file."""
    print(f"Exported {transfer.export_file(args.file)} slot groups to {args.file}")


@reading
def check_command(args: Namespace) -> None:
    """Say what is wrong."""
    problems = health.check()
    if problems or args.output in ("json", "yaml"):
        show(
            [{"problem": p.code, "where": p.where, "what": p.text, "remedy": p.remedy} for p in problems],
            args.output,
        )
    else:
        print("All is well: a coordinator is alive and every slot group is served")
    if problems:
        raise SystemExit(1)


@providers_configuration_loaded
@readable
def coordinator_command(args: Namespace) -> None:
    """Serve the slot groups in this process."""
    place = coordinator_place()
    if place is not CoordinatorPlace.EXTERNAL:
        raise InvalidValueError(
            "[slotgroups] coordinator",
            place.value,
            "set it to 'external' to run coordinators by themselves",
        )
    from airflow_slotgroups.coordinator.process import run_coordinator

    run_coordinator()
