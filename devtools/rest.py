"""A small client of Airflow's REST API on a loopback address, standard library only."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote


class RestError(RuntimeError):
    """The API server refused a request; carries the status."""

    def __init__(self, method: str, url: str, status: int, body: str) -> None:
        super().__init__(f"{method} {url} answered {status}: {body[:500]}")
        self.status = status


class RestClient:
    """Calls the API as the administrator that the simple auth manager gives to everybody."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self._token: str | None = None
        # Never through a proxy of the machine: the address is a loopback one.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One authenticated call; a token that has run out is fetched anew once."""
        try:
            return self._send(method, path, body, self._authorization())
        except RestError as error:
            if error.status != 401:
                raise
            self._token = None
            return self._send(method, path, body, self._authorization())

    def health(self) -> dict[str, Any]:
        """The health report; needs no token. Raises OSError while nobody listens."""
        answer: dict[str, Any] = self._send("GET", "/api/v2/monitor/health", None, {})
        return answer

    def unpause(self, dag_id: str) -> None:
        """Let the DAG's runs be scheduled."""
        self._set_paused(dag_id, False)

    def pause(self, dag_id: str) -> None:
        """Keep the DAG's tasks from being scheduled."""
        self._set_paused(dag_id, True)

    def trigger(self, dag_id: str, run_id: str | None, conf: dict[str, Any] | None) -> str:
        """Make a run; returns its id."""
        body: dict[str, Any] = {"logical_date": None, "conf": conf or {}}
        if run_id is not None:
            body["dag_run_id"] = run_id
        answer = self.call("POST", f"/api/v2/dags/{quote(dag_id, safe='')}/dagRuns", body)
        return str(answer["dag_run_id"])

    def _set_paused(self, dag_id: str, paused: bool) -> None:
        path = f"/api/v2/dags/{quote(dag_id, safe='')}?update_mask=is_paused"
        self.call("PATCH", path, {"is_paused": paused})

    def _authorization(self) -> dict[str, str]:
        if self._token is None:
            self._token = self._send("GET", "/auth/token", None, {})["access_token"]
        return {"Authorization": f"Bearer {self._token}"}

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.base_url + path, data, {"Content-Type": "application/json", **headers}, method=method
        )
        try:
            with self._opener.open(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise RestError(
                    method, request.full_url, error.code, error.read().decode(errors="replace")
                ) from None
        return json.loads(text) if text else None
