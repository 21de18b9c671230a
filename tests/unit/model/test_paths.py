import pytest

from gpustack_deploy.model.paths import Step, exists, overlap, path_of, plain, steps_of

pytestmark = pytest.mark.check

PATHS: list[tuple[str, tuple[Step, ...]]] = [
    ("", ()),
    ("size", ("size",)),
    ("roles[1].size", ("roles", 1, "size")),
    ('pod.labels["example.com/team"]', ("pod", "labels", "example.com/team")),
    ('roleKinds["my-role"]', ("roleKinds", "my-role")),
]


@pytest.mark.parametrize(("path", "steps"), PATHS)
def test_a_path_and_its_steps_say_the_same(path: str, steps: tuple[Step, ...]) -> None:
    assert path == path_of(steps)
    assert steps == steps_of(path)


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        ("env", "env[0].value", True),
        ("env[0].value", "env[0]", True),
        ("env[0].value", "env[0].value", True),
        ("", "anything", True),
        ("env[0].value", "env[0].name", False),
        ("env[1]", "env[10]", False),
        ("size", "sizes", False),
    ],
)
def test_paths_overlap_when_one_is_the_other_or_holds_it(
    first: str, second: str, want: bool
) -> None:
    assert want == overlap(first, second)


@pytest.mark.parametrize(
    ("steps", "want"),
    [
        (("a", 0, "b"), True),
        (("a", 1), False),
        (("a", "b"), False),
        (("c",), False),
        (("t", 0), False),
        ((), True),
    ],
)
def test_a_path_exists_where_the_object_says_something(steps: tuple[Step, ...], want: bool) -> None:
    assert want == exists({"a": [{"b": None}], "t": "text"}, steps)


def test_a_plain_copy_shares_nothing_that_can_change() -> None:
    inner: dict[str, tuple[str, ...]] = {"b": ("x", "y")}
    copy = plain({"a": inner})
    inner["c"] = ()
    assert {"a": {"b": ["x", "y"]}} == copy
