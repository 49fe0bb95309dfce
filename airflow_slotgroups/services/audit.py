"""What people did to a group."""

from __future__ import annotations

from sqlalchemy.orm import Session

from airflow_slotgroups.airflow_core.audit import AuditEntry, read_audit
from airflow_slotgroups.services.groups import find_group
from airflow_slotgroups.services.transaction import read

__all__ = ["AuditEntry", "audit_of"]


def audit_of(name: str, limit: int, before: int | None = None) -> list[AuditEntry]:
    """Return the manual actions on a group and its requests, the last one first.

    :param before: only what was logged before the entry of this number.
    :raises UnknownGroupError, OrdinaryPoolError: that name is no group.
    """
    return read(lambda session: audit_in(session, name, limit, before))


def audit_in(session: Session, name: str, limit: int, before: int | None) -> list[AuditEntry]:
    """Read them."""
    find_group(session, name)
    return read_audit(session, name, limit, before)
