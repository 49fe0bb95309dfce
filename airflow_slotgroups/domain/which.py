"""Which requests of a group a person means."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Which:
    """Which live requests of a group are meant; what is None does not matter.

    :param request_id: the number of one request, live or ended.
    """

    dag_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    map_index: int | None = None
    request_id: int | None = None

    def given(self) -> dict[str, str | int]:
        """Return what matters, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value!r}" for name, value in self.given().items())
