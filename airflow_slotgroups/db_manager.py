"""Makes our tables in `airflow db migrate`; Airflow finds it through the provider info."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.utils.db_manager import BaseDBManager
from sqlalchemy import column, inspect, select, table
from sqlalchemy.orm import Session

from airflow_slotgroups.domain.errors import TablesMissingError
from airflow_slotgroups.models import metadata as slotgroups_metadata

HERE = Path(__file__).parent


class SlotGroupsDBManager(BaseDBManager):
    """Our tables and their migrations, with a version table of their own."""

    metadata = slotgroups_metadata
    version_table_name = "alembic_version_slotgroups"
    migration_dir = (HERE / "migrations").as_posix()
    alembic_file = (HERE / "migrations" / "alembic.ini").as_posix()
    supports_table_dropping = True
    revision_heads_map = {"0.1.0": "0001"}  # noqa: RUF012 - as the base class declares it

    def head(self) -> str:
        """Return the version that this package needs."""
        head: str | None = self.get_script_object().get_current_head()
        assert head is not None
        return head

    def downgrade(
        self, to_revision: str, from_revision: str | None = None, show_sql_only: bool = False
    ) -> None:
        """Take the tables back to an older version, `base` for none.

        :param from_revision: where to start from; only with `show_sql_only`.
        :raises ValueError: `from_revision` without `show_sql_only`.
        """
        from alembic import command

        if from_revision and not show_sql_only:
            raise ValueError("from_revision can only be given with show_sql_only: a database knows its own")
        self._release_metadata_locks_if_needed()
        config: Any = self.get_alembic_config()
        revision = f"{from_revision or self.head()}:{to_revision}" if show_sql_only else to_revision
        command.downgrade(config, revision=revision, sql=show_sql_only)


def check_tables(session: Session) -> None:
    """Make sure that our tables are those of this version of the package.

    :raises TablesMissingError: they are missing, older or newer.
    """
    found, wanted = version_at_hand(session), SlotGroupsDBManager(session).head()
    if found != wanted:
        raise TablesMissingError(found, wanted)


def version_at_hand(session: Session) -> str | None:
    """Read the version of our tables; not through alembic, which logs two lines each time that it looks."""
    name = SlotGroupsDBManager.version_table_name
    if not inspect(session.connection()).has_table(name):
        return None
    version: str | None = session.scalar(select(column("version_num")).select_from(table(name)))
    return version
