"""Requests made up from the OpenAPI document: none is answered by 5xx, and none without permission.

The seed is in the header of the test run. A case goes out as nobody, as a viewer and as an admin, half of the
time to a group that exists; the admin's answers must be those of the document.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error, response_schema_conformance, status_code_conformance
from schemathesis.specs.openapi.checks import content_type_conformance

from tests.api.conftest import Server

DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8"))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = {
    f"{found.ok().method.upper()} {found.ok().path}": found.ok() for found in SCHEMA.get_all_operations()
}
CHECKS = [not_a_server_error, response_schema_conformance, status_code_conformance, content_type_conformance]
EXAMPLES = 6
LEFT_OUT = re.compile(r"%0A|/\.\.?(?=/|$)")


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """A connection that is kept, never through a proxy of the machine."""
    with requests.Session() as kept:
        kept.trust_env = False
        yield kept


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("name", OPERATIONS)
def test_made_up_requests(
    simple: Server, session: requests.Session, name: str, mode: GenerationMode, record_property: Any
) -> None:
    """Valid ones and invalid ones."""
    sent: Counter[int] = Counter()
    simple.call("admin", "POST", "/groups", json={"pool": "fuzzed", "slots": 1})
    operation = OPERATIONS[name]

    def send(case: Any, who: str | None) -> Any:
        headers = {"Authorization": f"Bearer {simple.token(who)}"} if who else {}
        answer = case.call(base_url=f"{simple.url}/slotgroups", session=session, headers=headers)
        sent[answer.status_code] += 1
        return answer

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode), real=st.booleans())
    def play(case: Any, real: bool) -> None:
        if real and "pool" in (case.path_parameters or {}):
            case.path_parameters["pool"] = "fuzzed"
        # Airflow itself answers a path with a line break: it reaches no app that is mounted. Nor do dots.
        assume(not LEFT_OUT.search(case.formatted_path))
        case.headers.pop("Authorization", None)
        assert send(case, None).status_code == 401, case.as_curl_command()
        viewers = send(case, "viewer").status_code
        assert viewers < 500, case.as_curl_command()
        assert case.method.upper() == "GET" or viewers in (400, 403, 404, 405, 413, 422), (
            f"a viewer got {viewers}: {case.as_curl_command()}"
        )
        case.validate_response(send(case, "admin"), checks=CHECKS)

    play()
    for status, number in sent.items():
        record_property(f"fuzzed requests answered by {status}", number)
