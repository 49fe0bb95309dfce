"""docs/api.md is complete; that its examples run is seen on the demo (tests/acceptance/test_demo.py)."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_slotgroups.domain.explain import RULES

TEXT = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")


def test_every_name_that_explain_may_give_is_in_the_table() -> None:
    """Read from the source of the rules."""
    import inspect

    from airflow_slotgroups.domain import explain

    assert RULES
    source = inspect.getsource(explain)
    names = set(re.findall(r'(?:Check|limit_check)\(\s*"(\w+)"', source)) | {
        "up_for_retry",
        "max_active_tasks",
    }
    table = TEXT[TEXT.index("| `name` |") : TEXT.index("## What has been")]
    missing = {name for name in names if f"`{name}`" not in table}
    assert missing <= {"slot_group_ahead", "slot_group_holders"}
