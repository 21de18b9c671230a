"""What a rule is: a function over a valid declaration that yields refusals, and what it reads."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from gpustack_deploy.model.refusals import Problem
from gpustack_deploy.model.role import RoleDeclaration


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `reads` are the paths that decide it beside the one it reports."""

    check: Callable[[RoleDeclaration], Iterable[Problem]]
    reads: tuple[str, ...] = ()

    def problems(self, declaration: RoleDeclaration) -> Iterator[Problem]:
        """Yield what the rule refuses, each with everything that was read."""
        for problem in self.check(declaration):
            yield replace(problem, touches=(*problem.touches, *self.reads))
