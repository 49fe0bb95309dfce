"""Short names for SQLAlchemy's types of queries and rows whatever their columns.

Up to SQLAlchemy 2.0 they have one type parameter, a tuple; from 2.1 on as many as there are columns. Only a
type checker sees the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Row, Select

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Unpack

    AnyRow = Row[Unpack[tuple[Any, ...]]]
    AnySelect = Select[Unpack[tuple[Any, ...]]]
else:
    AnyRow = Row
    AnySelect = Select

__all__ = ["AnyRow", "AnySelect"]
