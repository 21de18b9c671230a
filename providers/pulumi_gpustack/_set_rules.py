"""Rules that need two roles at once; each role's own `check` sees only itself (D13)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pulumi

from gpustack_deploy.model.errors import InvalidSpec

# What the rules read of a role. The rest is filled in, since each role's own check judges it.
_READ: Final = ("name", "kind", "instanceType", "resources")
_REST: Final = {"name": "any", "model": "any", "engine": {"name": "vLLM"}}


def require_sound_set(entries: Iterable[Mapping[str, Any]]) -> None:
    """Refuse roles that cannot stand beside each other; values known only later are not judged.

    Raises:
        InvalidSpec: with the path in the deployment.
    """
    roles = [{key: entry[key] for key in _READ if key in entry} for entry in entries]
    if len(roles) < 2 or _is_awaited(roles):
        return
    from pydantic import ValidationError  # noqa: PLC0415 - slow

    from gpustack_deploy.model.deployment_rules import set_rules  # noqa: PLC0415 - slow
    from gpustack_deploy.model.role import DeploymentSpec  # noqa: PLC0415 - slow

    try:
        spec = DeploymentSpec.model_validate({**_REST, "roles": roles})
    except ValidationError:
        return  # each role's own check says what is wrong with it
    for problem in set_rules(spec):
        raise InvalidSpec(problem.path, problem.reason)


def _is_awaited(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_is_awaited(item) for item in value.values())
    if isinstance(value, list):
        return any(_is_awaited(item) for item in value)
    return isinstance(value, pulumi.Output) or hasattr(value, "__await__")
