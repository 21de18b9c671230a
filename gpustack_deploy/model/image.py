"""Which image a role's members run: the declared one, or the runner image (D26)."""

from typing import Final

from gpustack_deploy.model.role import RoleDeclaration

_REPOSITORY: Final = "gpustack/runner"
# The one backend whose images are built per accelerator variant.
_BACKEND_WITH_VARIANTS: Final = "cann"


def image_of(declaration: RoleDeclaration) -> str | None:
    """Return the image of the role, None when nothing that is declared names one."""
    if declaration.image:
        return declaration.image
    instance_type, engine = declaration.instance_type, declaration.engine
    backend, runtime = instance_type.runner_backend, instance_type.runtime_version
    if not (backend and runtime and engine.version):
        return None
    variant = instance_type.runtime_variant
    if backend == _BACKEND_WITH_VARIANTS and not variant:
        return None
    stem = f"{backend}{runtime}" + (f"-{variant}" if variant else "")
    return f"{_REPOSITORY}:{stem}-{engine.name.lower()}{engine.version}"
