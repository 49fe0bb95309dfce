"""The commands and their arguments; light, since Airflow loads this for every command line."""

from __future__ import annotations

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
)

ARG_NAME = Arg(("pool",), metavar="NAME", help="Name of the slot group, which is that of its pool")
ARG_POOL = Arg(("pool",), metavar="NAME", help="Name of the pool")
ARG_SLOTS = Arg(("slots",), metavar="SLOTS", type=int, help="Slots of the group, -1 for no limit")
ARG_DESCRIPTION = Arg(("description",), nargs="?", help="What the group is for")
ARG_STRATEGY = Arg(
    ("--strategy",),
    choices=("strict", "backfill"),
    help="strict: freed slots are kept for the head of the queue; backfill: smaller requests may pass it",
)
ARG_MAX_PASSES = Arg(
    ("--max-passes",), type=int, help="How often smaller requests may pass one head (backfill; default 10)"
)
ARG_AGEING = Arg(
    ("--ageing-seconds",),
    type=int,
    help="Seconds of waiting that are worth one point of priority; 0 for none",
)
ARG_COMMENT = Arg(("-c", "--comment"), help="Why; kept in the audit log")
ARG_LIMIT = Arg(("--limit",), type=int, default=1000, help="Show at most that many waiters")
ARG_END_SECTIONS = Arg(
    ("--end-sections",), action="store_true", help="End sections that hold slots instead of refusing"
)

ARG_HOURS = Arg(("--hours",), type=float, default=24.0, help="How far back (default 24)")
ARG_BUCKETS = Arg(("--buckets",), type=int, default=24, help="Into how many stretches to cut it (default 24)")
ARG_REQUESTS = Arg(("--requests",), action="store_true", help="List the requests that have ended instead")
ARG_MOST = Arg(("--limit",), type=int, default=100, help="Show at most that many requests (default 100)")
ARG_FILE = Arg(("file",), metavar="FILE", help="A JSON file, as 'airflow pools export' writes, and more")
ARG_ADOPT = Arg(("--adopt",), action="store_true", help="Take ordinary pools of those names over")

ARG_DAG_ID = Arg(("--dag-id",), help="Tasks of this DAG")
ARG_TASK_ID = Arg(("--task-id",), help="Instances of this task")
ARG_RUN_ID = Arg(("--run-id",), help="Tasks of this run")
ARG_MAP_INDEX = Arg(("--map-index",), type=int, help="The instance with this map index")
ARG_REQUEST_ID = Arg(("--request-id",), type=int, help="The one request of this number, see 'queue -o json'")
ARG_ALL = Arg(("--all",), action="store_true", help="All waiting requests of the group")
ARG_PRIORITY = Arg(("--priority",), type=int, help="The new priority; bigger goes first")
ARG_TOP = Arg(("--top",), action="store_true", help="Before all others, in their present order")

ARG_EXPLAIN_DAG = Arg(("dag_id",), metavar="DAG_ID", help="Its DAG")
ARG_EXPLAIN_TASK = Arg(("task_id",), metavar="TASK_ID", help="Its task")
ARG_EXPLAIN_RUN = Arg(("run_id",), metavar="RUN_ID", help="Its run")

WHICH = (ARG_DAG_ID, ARG_TASK_ID, ARG_RUN_ID, ARG_MAP_INDEX, ARG_REQUEST_ID, ARG_ALL, ARG_COMMENT, ARG_OUTPUT)
SETTINGS = (ARG_STRATEGY, ARG_MAX_PASSES, ARG_AGEING, ARG_COMMENT)


def command(name: str, text: str, *args: Arg) -> ActionCommand:
    """Describe one command; its function is that of the same name in `commands`."""
    return ActionCommand(
        name=name,
        help=text,
        func=lazy_load_command(f"airflow_slotgroups.cli.commands.{name.replace('-', '_')}_command"),
        args=(*args, ARG_VERBOSE),
    )


COMMANDS = (
    command("list", "List the slot groups", ARG_OUTPUT),
    command("get", "Show one slot group", ARG_NAME, ARG_OUTPUT),
    command(
        "set",
        "Make a slot group with its pools, or change one",
        ARG_NAME,
        ARG_SLOTS,
        ARG_DESCRIPTION,
        *SETTINGS,
    ),
    command("delete", "Delete a slot group that nobody uses, with its pools", ARG_NAME, ARG_COMMENT),
    command("adopt", "Turn an ordinary pool into a slot group", ARG_POOL, *SETTINGS),
    command(
        "dissolve", "Turn a slot group back into an ordinary pool", ARG_NAME, ARG_END_SECTIONS, ARG_COMMENT
    ),
    command(
        "queue", "Show who holds slots and who waits, in order, and why", ARG_NAME, ARG_LIMIT, ARG_OUTPUT
    ),
    command("pause", "Let nobody in; holders finish, size and order are kept", ARG_NAME, ARG_COMMENT),
    command("resume", "Let waiters in again, after a pause or a bypass", ARG_NAME, ARG_COMMENT),
    command("bypass", "Lift the limit: let everybody in", ARG_NAME, ARG_COMMENT),
    command(
        "force-start",
        "Let waiters in at once, past suspension, queue, capacity and pause",
        ARG_NAME,
        *WHICH,
    ),
    command("prioritize", "Give waiters another priority", ARG_NAME, ARG_PRIORITY, ARG_TOP, *WHICH),
    command("suspend", "Pass waiters over; they keep their places", ARG_NAME, *WHICH),
    command("unsuspend", "Let suspended waiters take part again", ARG_NAME, *WHICH),
    command(
        "history",
        "Show waiting and holding times, use and size over time",
        ARG_NAME,
        ARG_HOURS,
        ARG_BUCKETS,
        ARG_REQUESTS,
        ARG_MOST,
        ARG_OUTPUT,
    ),
    command(
        "import",
        "Make or change slot groups as a file says, all of them or none",
        ARG_FILE,
        ARG_ADOPT,
        ARG_COMMENT,
    ),
    command("export", "Write all slot groups, with their real sizes, to a file", ARG_FILE),
    command(
        "explain",
        "Say why a task instance does not run: what holds it now, and every limit",
        ARG_EXPLAIN_DAG,
        ARG_EXPLAIN_TASK,
        ARG_EXPLAIN_RUN,
        ARG_MAP_INDEX,
        ARG_OUTPUT,
    ),
    command("check", "Say what is wrong and what to do; exits with 1 if anything is", ARG_OUTPUT),
    command("coordinator", "Serve the slot groups, where coordinator in section slotgroups is 'external'"),
)


def get_cli_commands() -> list[CLICommand]:
    """Return what Airflow adds to its command line."""
    return [
        GroupCommand(name="slotgroups", help="Manage slot groups: pools with a queue", subcommands=COMMANDS)
    ]
