"""Names, states and errors."""

from __future__ import annotations

import pickle
import shlex

import pytest

from airflow_slotgroups.domain import errors, states
from airflow_slotgroups.domain.errors import InvalidNameError, SlotGroupsError, quoted
from airflow_slotgroups.domain.names import MAX_NAME_LENGTH, UNLIMITED_POOL, check_group_name, running_pool
from airflow_slotgroups.domain.reasons import Code
from airflow_slotgroups.domain.snapshot import Limit, RunKey, TaskKey, Waiter

EVERY_ERROR = {
    "name": (InvalidNameError("x", "the name is empty", "give a name"), "x"),
    "value": (errors.InvalidValueError("slots", -2, "give 0 or more"), -2),
    "unknown group": (errors.UnknownGroupError("wh"), "wh"),
    "ordinary pool": (errors.OrdinaryPoolError("wh"), "wh"),
    "unknown pool": (errors.UnknownPoolError("wh"), "wh"),
    "group already": (errors.AlreadyGroupError("wh", "is a slot group already", "change it"), "wh"),
    "name taken": (errors.PoolNameTakenError("wh.running"), "wh.running"),
    "in use": (errors.GroupInUseError("wh", 3, 2, "wait"), "wh"),
    "nothing found": (errors.NothingFoundError("wh", "task_id 't'"), "task_id 't'"),
    "not waiting": (errors.RequestStateError("suspend", "d.t", "granted"), "d.t"),
    "dissolving": (errors.DissolvingError("wh"), "wh"),
    "busy": (errors.BusyError("adopt pool 'wh'"), "adopt pool 'wh'"),
    "unknown task instance": (errors.UnknownTaskInstanceError("d", "r", "t", 3), "'t', map index 3"),
    "file": (errors.UnreadableFileError("a.json", "it is no JSON", "mend it"), "a.json"),
    "import": (errors.ImportRefusedError("a.json", ["'wh': slots can not be 'x'"]), "'x'"),
    "tables missing": (errors.TablesMissingError(None, "0001"), "missing"),
    "tables old": (errors.TablesMissingError("0001", "0002"), "0001"),
}


@pytest.mark.parametrize(
    ("error", "value"), [pytest.param(*row, id=name) for name, row in EVERY_ERROR.items()]
)
def test_an_error_says_what_to_which_value_and_what_to_do(error: SlotGroupsError, value: object) -> None:
    assert str(value) in error.message
    assert error.remedy
    assert str(error) == f"{error.message}; {error.remedy}"
    assert "\n" not in str(error)


def test_every_error_with_a_text_of_its_own_stands_in_the_table() -> None:
    classes = {one for one in vars(errors).values() if isinstance(one, type)}
    own = {one for one in classes if "__init__" in vars(one)} - {SlotGroupsError}

    assert all(issubclass(one, SlotGroupsError) for one in classes)
    assert own <= {type(error) for error, _ in EVERY_ERROR.values()}


def test_an_error_without_a_remedy_is_its_message() -> None:
    assert str(SlotGroupsError("something", "")) == "something"


@pytest.mark.parametrize("error", [errors.BusyError("x"), errors.DissolvingError("x")])
def test_trying_again_can_help(error: SlotGroupsError) -> None:
    assert error.can_retry


def test_trying_again_does_not_help_else() -> None:
    can = {type(error) for error, _ in EVERY_ERROR.values() if error.can_retry}

    assert can == {errors.BusyError, errors.DissolvingError}


@pytest.mark.parametrize(
    "name", ["warehouse", "ware house", "it's", "a.b-c_d", "münchen", "🚀", "a;b", "$HOME"]
)
def test_a_quoted_name_is_one_word_of_a_shell(name: str) -> None:
    assert shlex.split(quoted(name)) == [name]


def test_a_plain_name_is_not_quoted() -> None:
    assert quoted("ware.house-2_b") == "ware.house-2_b"


@pytest.mark.parametrize(
    "name", ["p", "a.b", "with blanks", "a/b", "🚀", "x" * MAX_NAME_LENGTH, "default_pool", "p.running.too"]
)
def test_a_good_name_comes_back(name: str) -> None:
    assert check_group_name(name) == name


BAD_NAMES = {
    "empty": ("", "'' can not be a slot group: the name is empty; give the group a name"),
    "blank": ("  ", "'  ' can not be a slot group: the name is empty; give the group a name"),
    "too long": (
        "x" * 249,
        f"'{'x' * 249}' can not be a slot group: the name has 249 characters; choose one of at most 248, so that"
        " '<name>.running' still is a pool's name",
    ),
    "a line break": (
        "a\nb",
        "'a\nb' can not be a slot group: the name has a line break; choose a name of one line",
    ),
    "the pool of forced starts": (
        UNLIMITED_POOL,
        "'slotgroups.unlimited' can not be a slot group: forced starts use that pool; choose another name",
    ),
}


@pytest.mark.parametrize(("name", "text"), [pytest.param(*row, id=what) for what, row in BAD_NAMES.items()])
def test_a_bad_name_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidNameError) as caught:
        check_group_name(name)

    assert str(caught.value) == text


def test_the_running_pool_of_the_longest_name_fits_in_airflows_column() -> None:
    assert len(running_pool("x" * MAX_NAME_LENGTH)) == 256
    assert running_pool("p") == "p.running"


def words() -> list[type[states.Word]]:
    """Every enum whose values are stored or printed."""
    return [*states.Word.__subclasses__()]


@pytest.mark.parametrize("kind", words())
def test_a_state_is_its_own_word(kind: type[states.Word]) -> None:
    for one in kind:
        assert f"{one}" == str(one) == one.value == one.name.lower()
        assert kind(one.value) is one
        assert len(one.value) <= (20 if kind is not Code else 30)


def test_live_states_are_two_of_four() -> None:
    assert [one.value for one in states.RequestState] == ["waiting", "granted", "released", "cancelled"]


def test_a_limit_without_a_most_is_never_reached() -> None:
    assert not Limit(10**9, None).reached(10**9)


@pytest.mark.parametrize(
    ("limit", "more", "reached"), [(Limit(1, 2), 0, False), (Limit(1, 2), 1, True), (Limit(3, 2), 0, True)]
)
def test_a_limit_counts_what_comes_on_top(limit: Limit, more: int, reached: bool) -> None:
    assert limit.reached(more) is reached


def test_a_waiter_knows_its_run_and_its_task() -> None:
    one = Waiter(1, "d", "r", "t")

    assert (one.run, one.task) == (RunKey("d", "r"), TaskKey("d", "t"))
    assert pickle.loads(pickle.dumps(one)) == one
