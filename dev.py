#!/usr/bin/env python3
"""The one command of this repository: `python3 dev.py` lists what it can do.

Standard library only, any Python from 3.8 starts it. All that it makes is in .dev/ beside this file.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent
DEV = ROOT / ".dev"
# Preferred first; the Python that runs this file comes second when it is one of them.
VERSIONS = ("3.11", "3.12", "3.13", "3.10")
PROBE = """
import sys, venv
print('%d.%d' % sys.version_info[:2], sys.version.split()[0] + ' ' + sys.base_prefix, sep='\\n', flush=True)
import ensurepip
"""
PROGRESS_SECONDS = 15


class SetupError(Exception):
    """Something that the user has to know; printed without a traceback."""


class Python(NamedTuple):
    """An installed interpreter that can make virtual environments."""

    version: str
    executable: str
    #: Full version and place: the same for every shim, link and environment of one installation.
    identity: str


# Finding a Python


def find_python() -> Python:
    """The best installed Python; SLOTGROUPS_PYTHON names another one."""
    named = os.environ.get("SLOTGROUPS_PYTHON")
    lacking = []
    for executable in [named] if named else candidates():
        python, has_pip = probe(executable)
        if python and has_pip:
            return python
        if python:
            lacking.append(python)
    if lacking:
        version, executable, _ = lacking[0]
        raise SetupError(
            f"{executable} has no ensurepip, so it can not make a virtual environment: install"
            f" python{version}-venv with the system's package manager (apt-get install python{version}-venv)"
        )
    where = f"SLOTGROUPS_PYTHON={named} is none" if named else "none was found on PATH"
    raise SetupError(f"a Python of version 3.10, 3.11, 3.12 or 3.13 is needed, {where}: install one")


def candidates() -> Iterator[str]:
    """Executables to try, best first; a name may be a shim that fails, so each is run before it is taken."""
    running = "{}.{}".format(*sys.version_info[:2])
    first, rest = VERSIONS[0], VERSIONS[1:]
    yield from executables(first)
    if running in VERSIONS:
        yield sys.executable
    for version in rest:
        yield from executables(version)


def executables(version: str) -> Iterator[str]:
    """Where a version may be: on PATH, or among the versions that pyenv keeps."""
    name = "python" + version
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if folder and os.access(os.path.join(folder, name), os.X_OK):
            yield os.path.join(folder, name)
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    yield from sorted(glob.glob(os.path.join(glob.escape(pyenv), "versions", version + ".*", "bin", name)))


def probe(executable: str) -> tuple[Python | None, bool]:
    """The interpreter (None when it does not run or has another version) and whether it has ensurepip."""
    try:
        done = subprocess.run(
            [executable, "-c", PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, False
    version, _, identity = done.stdout.decode().strip().partition("\n")
    if version not in VERSIONS:
        return None, False
    return Python(version, executable, identity), done.returncode == 0


# Setting up


class Environment:
    """The virtual environment: all dependencies under constraints, and this project as a built wheel."""

    def __init__(self, python: Python) -> None:
        self.python = python
        self.path = DEV / ("venv-" + python.version)
        self.executable = str(self.path / "bin" / "python")
        self.constraints = ROOT / "constraints" / f"constraints-{python.version}.txt"
        self._dependencies_stamp = self.path / "stamp-dependencies"
        self._wheel_stamp = self.path / "stamp-wheel"

    def set_up(self) -> None:
        """Make or renew what is out of date; nothing to do takes no time."""
        DEV.mkdir(exist_ok=True)
        with one_at_a_time(DEV / "lock"):
            dependencies, wheel = self._dependencies_hash(), self._wheel_hash()
            if read(self._dependencies_stamp) != dependencies:
                self._make(dependencies, wheel)
            elif read(self._wheel_stamp) != wheel:
                self._install(wheel)

    def _make(self, dependencies: str, wheel: str) -> None:
        say(f"setting up {self.path.relative_to(ROOT)} with Python {self.python.version}")
        shutil.rmtree(self.path, ignore_errors=True)
        run("making the virtual environment", [self.python.executable, "-m", "venv", str(self.path)])
        self._pip("installing the build tools", "build", "hatchling")
        self._install(wheel)
        self._dependencies_stamp.write_text(dependencies)

    def _install(self, wheel: str) -> None:
        # Without a stamp while it is being replaced: an interruption is made good by the next call.
        self._wheel_stamp.unlink(missing_ok=True)
        built = str(self._build())
        # pip takes a wheel of the same version for installed unless it is forced to look.
        self._pip("installing the wheel", "--no-deps", "--force-reinstall", built)
        self._pip("installing Airflow and the tools", built + "[dev,fab]")
        self._wheel_stamp.write_text(wheel)

    def _build(self) -> Path:
        """Build sdist and, from it, the wheel."""
        dist = DEV / "dist"
        shutil.rmtree(dist, ignore_errors=True)
        command = [self.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(ROOT)]
        run("building sdist and wheel", command)
        return next(dist.glob("*.whl"))

    def _pip(self, what: str, *args: str) -> None:
        pip = [self.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
        run(what, [*pip, "--constraint", str(self.constraints), *args])

    def _dependencies_hash(self) -> str:
        return digest([self.constraints], self.python)

    def _wheel_hash(self) -> str:
        files = [ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE")]
        package = (ROOT / "airflow_slotgroups").rglob("*")
        files += [p for p in package if p.is_file() and not {"__pycache__", "node_modules"} & set(p.parts)]
        return digest(sorted(files), self.python)


@contextlib.contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Keeps two of these commands from changing the environment at once."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another dev.py is setting up here, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def digest(files: Iterable[Path], python: Python) -> str:
    """A hash of names and contents of files, and of the interpreter."""
    total = hashlib.sha256(python.identity.encode())
    for path in files:
        total.update(str(path.relative_to(ROOT)).encode() + b"\0")
        total.update(path.read_bytes() if path.is_file() else b"missing")
    return total.hexdigest()


def read(path: Path) -> str | None:
    """The text of a file, None when there is none."""
    return path.read_text() if path.is_file() else None


# Running commands


def say(line: str) -> None:
    """A line for the user, at once."""
    print(line, flush=True)


def run(what: str, command: list[str]) -> None:
    """Run a command with its output in a log: a line of progress now and then, the log's end on failure."""
    log = DEV / "logs" / (what.replace(" ", "-") + ".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=str(ROOT), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            follow(process, what, started)
        finally:
            end(process)
    if process.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise SetupError(f"{what} failed ({process.returncode}), see {log}:\n{tail}")
    say(f"  {what}: {time.monotonic() - started:.0f} s")


def follow(process: subprocess.Popen[bytes], what: str, started: float) -> None:
    """Wait for a process, saying every few seconds that it still works."""
    due = started + PROGRESS_SECONDS
    while process.poll() is None:
        time.sleep(0.1)
        if time.monotonic() > due:
            due += PROGRESS_SECONDS
            say(f"  {what} ... {time.monotonic() - started:.0f} s")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs because we were interrupted."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def clean_env() -> dict[str, str]:
    """Our environment without settings of another Airflow, and with a home that is not the user's."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW_", "_AIRFLOW_"))}
    for key in ("PYTHONPATH", "PYTHONHOME"):
        env.pop(key, None)
    env["AIRFLOW_HOME"] = str(DEV / "airflow-home")
    return env


def become(command: list[str]) -> NoReturn:
    """Go on as another program: signals reach it as if it had been started by hand."""
    sys.stdout.flush()
    os.chdir(str(ROOT))
    os.execve(command[0], command, clean_env())


# The verbs


def ready() -> Environment:
    """The environment, set up."""
    environment = Environment(find_python())
    environment.set_up()
    return environment


def setup() -> None:
    """make or renew the virtual environment in .dev/; nothing to do takes no time"""
    environment = ready()
    say(f"ready: {environment.path.relative_to(ROOT)}")


def demo() -> None:
    """start Airflow on SQLite, run example DAGs through three groups, watch the queue, sum up"""
    become([ready().executable, "-m", "devtools.demo"])


def test(args: list[str]) -> None:
    """run the tests (arguments are pytest's); SLOTGROUPS_TEST_POSTGRES / _MYSQL add database servers"""
    # A process for each core, four at most: what shares an Airflow stays in one of them (tests/conftest.py).
    become([ready().executable, "-m", "pytest", "--numprocesses", "logical", "--maxprocesses", "4", *args])


def bench() -> None:
    """measure a group against an ordinary pool, the coordinator's cycle, and the page"""
    become([ready().executable, "-m", "bench"])


def check() -> None:
    """ruff, ruff format, mypy and the import rules"""
    environment = ready()
    module = [environment.executable, "-m"]
    checks = {
        "ruff check": [*module, "ruff", "check", "."],
        "ruff format": [*module, "ruff", "format", "--check", "."],
        "mypy": [*module, "mypy", "--strict"],
        "mypy of the tools": [*module, "mypy", "--strict", "dev.py", "devtools", "bench"],
        "import rules": [str(environment.path / "bin" / "lint-imports")],
    }
    failed = [name for name, command in checks.items() if not passes(name, command)]
    if failed:
        raise SetupError("failed: " + ", ".join(failed))
    say("all checks passed")


def passes(name: str, command: list[str]) -> bool:
    """Run one check in the open."""
    say("== " + name)
    return subprocess.call(command, cwd=str(ROOT), env=clean_env()) == 0


def clean() -> None:
    """remove .dev/ and all that is in it"""
    shutil.rmtree(DEV, ignore_errors=True)
    say(f"removed {DEV}")


VERBS: dict[str, Callable[..., None]] = {
    verb.__name__: verb for verb in (setup, demo, test, check, bench, clean)
}


def usage() -> str:
    """The verbs and what each does."""
    lines = [f"  {name:<6} {verb.__doc__}" for name, verb in VERBS.items()]
    return "\n".join(["usage: python3 dev.py VERB", "", *lines])


def on_sigterm(number: int, frame: Any) -> NoReturn:
    """Ends like Ctrl-C does, so that what was started is ended too."""
    sys.exit(128 + number)


def main(argv: list[str]) -> int:
    """Do what the command line says; returns the exit code."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        say(usage())
        return 0
    name, arguments = argv[0], argv[1:]
    if name not in VERBS:
        print(f"unknown verb {name!r}\n\n{usage()}", file=sys.stderr)
        return 2
    if arguments and name != "test":
        print(f"{name} takes no arguments, not {' '.join(arguments)!r}\n\n{usage()}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, on_sigterm)
    try:
        VERBS[name](*([arguments] if name == "test" else []))
    except SetupError as error:
        print(f"dev.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("dev.py: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
