"""Runs `airflow ...` command lines in one process, since each process of its own costs seconds.

Reads one request a line (JSON: argv, env) and answers with one line (code, out, err).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback
from typing import Any


def run(argv: list[str]) -> tuple[int, str, str]:
    """Do what `airflow.__main__` does with a command line; returns exit code, output and errors."""
    from airflow.cli import cli_parser

    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            # Some of Airflow's commands look here.
            sys.argv = ["airflow", *argv]
            args = cli_parser.get_parser().parse_args(argv)
            args.func(args)
        except SystemExit as exit_:
            code = exit_.code
        except Exception:
            # As Python ends a program; a test then shows it.
            traceback.print_exc()
            code = 1
    if isinstance(code, str):
        # Python itself prints such a code, and ends with 1.
        err.write(code)
        code = 1
    return code or 0, out.getvalue(), err.getvalue()


def main() -> None:
    """Serve until the other side closes our input."""
    # Handlers of logging keep the output that they were made with; the answers are not for them.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        before = dict(os.environ)
        os.environ.update(request["env"])
        try:
            code, out, err = run(request["argv"])
        finally:
            os.environ.clear()
            os.environ.update(before)
        print(json.dumps({"code": code, "out": out, "err": err}), file=answers, flush=True)


if __name__ == "__main__":
    main()
