"""Our tables: made, taken back, and equal whichever way they are made, on each database at hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from airflow_slotgroups.airflow_core.sessions import new_session
from airflow_slotgroups.db_manager import SlotGroupsDBManager, check_tables
from airflow_slotgroups.domain.errors import TablesMissingError
from airflow_slotgroups.models import metadata
from tests.integration.conftest import backends
from tests.integration.support.databases import BACKENDS, Database, own_database

VERSION_TABLE = SlotGroupsDBManager.version_table_name
OURS = set(metadata.tables)


@pytest.fixture(params=backends(*BACKENDS))
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database with no tables at all."""
    with own_database(request.param, tmp_path) as database, database.active():
        yield database


def tables(database: Database) -> set[str]:
    """Names of the tables there."""
    return set(sa.inspect(database.engine).get_table_names())


def upgrade() -> None:
    """By our migrations."""
    with new_session() as session:
        SlotGroupsDBManager(session).upgradedb(use_migration_files=True)


def differences(database: Database) -> list[Any]:
    """What alembic would change to make the tables those of the models."""
    options = {
        "compare_type": True,
        "version_table": VERSION_TABLE,
        "include_object": lambda _o, name, kind, *_rest: kind != "table" or name in OURS,
    }
    with database.engine.connect() as connection:
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def shape(database: Database) -> dict[str, Any]:
    """Columns, keys and indexes of our tables, as the database tells them."""
    inspector = sa.inspect(database.engine)
    return {
        name: (
            [
                (c["name"], repr(c["type"]), c["nullable"], c.get("default"))
                for c in inspector.get_columns(name)
            ],
            inspector.get_pk_constraint(name),
            sorted((i["name"], i["column_names"], bool(i["unique"])) for i in inspector.get_indexes(name)),
            sorted((u["name"], u["column_names"]) for u in inspector.get_unique_constraints(name)),
        )
        for name in sorted(OURS)
    }


def test_from_nothing_to_the_head_and_back(empty: Database) -> None:
    upgrade()
    assert tables(empty) == OURS | {VERSION_TABLE}
    with new_session() as session:
        check_tables(session)

    with new_session() as session:
        SlotGroupsDBManager(session).downgrade("base")
    assert tables(empty) == {VERSION_TABLE}
    with new_session() as session, pytest.raises(TablesMissingError, match="airflow db migrate"):
        check_tables(session)

    upgrade()
    assert tables(empty) == OURS | {VERSION_TABLE}


def test_migrations_make_what_the_models_say(empty: Database) -> None:
    upgrade()
    assert differences(empty) == []


def test_a_new_database_made_from_the_models_equals_one_that_was_migrated(empty: Database) -> None:
    """`airflow db migrate` on an empty database makes the tables from the models and stamps the head."""
    upgrade()
    migrated = shape(empty)
    with new_session() as session:
        SlotGroupsDBManager(session).downgrade("base")
    with empty.engine.begin() as connection:
        connection.execute(sa.text(f"DROP TABLE {VERSION_TABLE}"))
    with new_session() as session:
        SlotGroupsDBManager(session).initdb()
    assert shape(empty) == migrated
    with new_session() as session:
        check_tables(session)


def test_the_sql_alone_can_be_shown(empty: Database, capsys: pytest.CaptureFixture[str]) -> None:
    with new_session() as session:
        SlotGroupsDBManager(session).downgrade("base", from_revision="head", show_sql_only=True)
    assert "DROP TABLE slot_request" in capsys.readouterr().out
    assert tables(empty) == set()


def test_a_database_knows_its_own_version(empty: Database) -> None:
    with new_session() as session, pytest.raises(ValueError, match="from_revision"):
        SlotGroupsDBManager(session).downgrade("base", from_revision="head")
