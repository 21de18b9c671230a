"""Validation of a declaration that is not known completely yet, as in a preview.

Each unknown value is stood in for by the first candidate that its place accepts, so that everything
else can be judged; whatever touches an unknown value is not judged.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from gpustack_deploy.model.paths import Step, has_step, plain, steps_of
from gpustack_deploy.model.raw import Json
from gpustack_deploy.model.refusals import Problem, translate

_ABSENT: Final = object()
# One of these fits any leaf: a default, free text, a number, a quantity, a flag, the closed sets,
# an absolute path, an empty block or list.
_CANDIDATES: Final[tuple[Any, ...]] = (
    *(_ABSENT, "unknown", 1, 15, "1Gi", True),
    *("Server", "vLLM", "TCP", "Always", "Ready", "Wait", "Exists", "NoSchedule", "ClusterFirst"),
    *("Memory", "/unknown", {}, []),
)
Block = TypeVar("Block", bound=BaseModel)


def validate_known(
    block: type[Block], raw: Json, *, unknown: Iterable[str] = ()
) -> tuple[Block | None, tuple[Problem, ...]]:
    """Return the block, or what is wrong with its known part.

    Both are empty when an unknown value leaves the block without a shape to judge.
    """
    attempt = dict.fromkeys(unknown, 0)
    while True:
        patched = plain(raw)
        for path, position in attempt.items():
            _put(patched, steps_of(path), _CANDIDATES[position])
        try:
            return block.model_validate(patched), ()
        except ValidationError as error:
            problems = translate(error, block=block)
        known = tuple(problem for problem in problems if not problem.is_touched_by(attempt))
        blamed = [
            path for path in attempt if any(problem.is_touched_by((path,)) for problem in problems)
        ]
        if not blamed or any(attempt[path] + 1 == len(_CANDIDATES) for path in blamed):
            return None, known
        for path in blamed:
            attempt[path] += 1


def _put(target: Any, steps: Sequence[Step], value: Any) -> None:
    """Put the value at the path, as far as the path exists; an entry of a list is never removed."""
    *above, last = steps
    for step in above:
        if not has_step(target, step):
            return
        target = target[step]
    if isinstance(target, dict) and value is _ABSENT:
        target.pop(last, None)
    elif isinstance(target, dict) or has_step(target, last):
        target[last] = None if value is _ABSENT else value
