"""Base class and column types. Airflow's own types are used, so that joins with its tables need no casts."""

from __future__ import annotations

from airflow.models.base import StringID
from airflow.utils.sqlalchemy import UtcDateTime
from sqlalchemy import BigInteger, Integer, MetaData
from sqlalchemy.orm import DeclarativeBase

from airflow_slotgroups.domain.names import MAX_NAME_LENGTH

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
    }
)

POOL_LENGTH = MAX_NAME_LENGTH

# SQLite gives a value by itself to an INTEGER primary key alone, never to a BIGINT.
BigId = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    """Base of our tables."""

    metadata = metadata


__all__ = ["POOL_LENGTH", "Base", "BigId", "StringID", "UtcDateTime", "metadata"]
