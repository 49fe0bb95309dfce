"""Servers on which tests and bench may make databases, beside SQLite."""

from __future__ import annotations

SERVERS = {"postgresql": "SLOTGROUPS_TEST_POSTGRES", "mariadb": "SLOTGROUPS_TEST_MYSQL"}
"""The environment variable that names the server, by backend; SQLite needs none."""
