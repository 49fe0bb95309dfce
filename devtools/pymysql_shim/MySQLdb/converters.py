"""The two names that Airflow reads."""

from __future__ import annotations

from typing import Any

from pymysql.converters import escape_datetime  # type: ignore[import-untyped]  # ships no types

conversions: dict[type, Any] = {}
DateTime2literal = escape_datetime
