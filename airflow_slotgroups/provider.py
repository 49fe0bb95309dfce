"""What Airflow learns of us by the entry point `apache_airflow_provider`."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider info; its keys are those of Airflow's provider_info.schema.json."""
    return {
        "package-name": "airflow-slotgroups",
        "name": "Slot groups",
        "description": "A queue manager in front of Airflow's pools.",
        "db-managers": ["airflow_slotgroups.db_manager.SlotGroupsDBManager"],
        "cli": ["airflow_slotgroups.cli.definitions.get_cli_commands"],
        "config": {"slotgroups": {"description": "Slot groups.", "options": options()}},
    }


def options() -> dict[str, Any]:
    """Return the options of section [slotgroups]."""
    return {
        "coordinator": option(
            "Where coordinators run: `scheduler` (beside every scheduler, started by it), `external` (by"
            " themselves, with `airflow slotgroups coordinator`) or `off` (nowhere: waiters wait).",
            "string",
            "scheduler",
        ),
        "busy_interval_seconds": option(
            "Time from cycle to cycle while a group has both waiters and holders. A cycle pauses at least as long as"
            " it takes.",
            "float",
            "0.1",
        ),
        "idle_interval_seconds": option("Time from cycle to cycle else.", "float", "0.5"),
        "allow_run_priority": option(
            "Let a run override the priority of its tasks by conf['slot_priority']. Whoever may trigger a DAG could"
            " jump the queue then.",
            "boolean",
            "False",
        ),
        "fab_view": option(
            "Show slot groups as a Flask-AppBuilder view too, in category Admin, if the FAB provider is installed."
            " Airflow 3 lists such views under Legacy Views.",
            "boolean",
            "False",
        ),
        "lease_seconds": option(
            "How long a grant may stay unused by the scheduler before its slots go to somebody else.",
            "float",
            "60",
        ),
        "history_retention_days": option(
            "How long ended requests, and changes of groups, are kept for the history. Coordinators delete older"
            " ones, a thousand at a time.",
            "float",
            "30",
        ),
    }


def option(description: str, kind: str, default: str) -> dict[str, Any]:
    """Describe one option."""
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": kind,
        "example": None,
        "default": default,
    }
