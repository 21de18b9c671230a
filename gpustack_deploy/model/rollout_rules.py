"""Rules about how a rollout is paced."""

from collections.abc import Iterator
from typing import Final

from gpustack_deploy.model.desired import LostNode
from gpustack_deploy.model.refusals import Problem
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.rule import Rule


def _lost_node(declaration: RoleDeclaration) -> Iterator[Problem]:
    found = declaration.rollout.lost_node
    if found is not LostNode.WAIT:
        yield Problem(
            "rollout.lostNode",
            f"found '{found}', which comes with part 2 (Status in the README), needed"
            f" '{LostNode.WAIT}', the only one that is carried out now; remove it",
        )


ROLLOUT_RULES: Final = (Rule(_lost_node),)
