"""A real control plane on loopback for tests, the demo and rehearsals.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler and Kueue are the real programs; KWOK
stands in for the kubelets, so Pods there never run a container.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpustack_deploy.sandbox.api import ApiError as ApiError
    from gpustack_deploy.sandbox.api import SandboxApi as SandboxApi
    from gpustack_deploy.sandbox.errors import SandboxError as SandboxError
    from gpustack_deploy.sandbox.sandbox import Sandbox as Sandbox

__all__ = ["ApiError", "Sandbox", "SandboxApi", "SandboxError"]

_HOMES = {"ApiError": "api", "Sandbox": "sandbox", "SandboxApi": "api", "SandboxError": "errors"}


def __getattr__(name: str) -> Any:
    """Imports on first use: the builder runs before any dependency is installed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only when something is asked for

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
