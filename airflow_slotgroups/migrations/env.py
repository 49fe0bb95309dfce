"""How alembic reaches the database: through Airflow's engine, with our own version table."""

from __future__ import annotations

from typing import Any

from airflow import settings
from alembic import context

from airflow_slotgroups.db_manager import SlotGroupsDBManager

OPTIONS: dict[str, Any] = {
    "target_metadata": SlotGroupsDBManager.metadata,
    "version_table": SlotGroupsDBManager.version_table_name,
    "render_as_batch": True,
    "compare_type": True,
}


def only_ours(_obj: object, name: str | None, type_: str, *_rest: object) -> bool:
    """Airflow's tables in the same database are none of our migrations' business."""
    return type_ != "table" or name in SlotGroupsDBManager.metadata.tables


def run_offline() -> None:
    """Print the SQL."""
    context.configure(url=settings.SQL_ALCHEMY_CONN, literal_binds=True, **OPTIONS)
    with context.begin_transaction():
        context.run_migrations()


def run_online() -> None:
    """Change the database."""
    assert settings.engine is not None  # Airflow has set it up before it calls a migration.
    with settings.engine.connect() as connection:
        context.configure(
            connection=connection, transaction_per_migration=True, include_object=only_ours, **OPTIONS
        )
        with context.begin_transaction():
            context.run_migrations()


if context.is_offline_mode():
    run_offline()
else:
    run_online()
