"""Probes of a member: what the kubelet asks before it calls a member started, ready, alive.

One replica has one container spec (D7). With several members only those that answer the API have a
listener to ask, so the probe is a command that succeeds at once on the others. It runs in `sh`,
which every image has, and asks through `python3`, which every image of a Python engine has; `curl`
is in some of them only. `sh` decides first, so that a follower starts no interpreter.
"""

import math
from typing import Final

from gpustack_deploy.model import identity
from gpustack_deploy.model.listener import is_external_dp, listener_of
from gpustack_deploy.model.role import RoleDeclaration

HEALTH_PATH: Final = "/health"
PERIOD_SECONDS: Final = 10
TIMEOUT_SECONDS: Final = 5
READINESS_FAILURES: Final = 3
LIVENESS_FAILURES: Final = 6  # a restart costs a model load, so readiness goes first

_ASK: Final = (
    "import ssl,sys;from urllib import request;"
    "c=ssl.create_default_context();c.check_hostname=False;c.verify_mode=ssl.CERT_NONE;"
    "request.urlopen(sys.argv[1],timeout=4,context=c)"
)
_LEADER_ONLY: Final = f'[ "${identity.ENV_MEMBER_INDEX}" = 0 ] || exit 0; exec "$@"'

Probe = dict[str, object]


def render_probes(declaration: RoleDeclaration) -> dict[str, Probe]:
    """Return the container's probe fields; none where nothing can be asked."""
    if not declaration.is_managed:
        handler = _take_over_handler(declaration)
        return {} if handler is None else {"readinessProbe": _probe(handler, READINESS_FAILURES)}
    listener = listener_of(declaration)
    if not listener.is_probeable:
        return {}
    handler = _http_handler(
        declaration, path=HEALTH_PATH, port=listener.port, scheme=listener.scheme
    )
    startup_failures = math.ceil(declaration.startup_timeout_seconds / PERIOD_SECONDS)
    return {
        "startupProbe": _probe(handler, startup_failures),
        "readinessProbe": _probe(handler, READINESS_FAILURES),
        "livenessProbe": _probe(handler, LIVENESS_FAILURES),
    }


def has_readiness(declaration: RoleDeclaration) -> bool:
    """Whether Ready means more than started for this role."""
    return "readinessProbe" in render_probes(declaration)


def _take_over_handler(declaration: RoleDeclaration) -> Probe | None:
    readiness = declaration.readiness
    if readiness is None:
        return None
    if readiness.http is not None:
        return _http_handler(
            declaration, path=readiness.http.path, port=readiness.http.port, scheme="HTTP"
        )
    if readiness.exec is not None:
        return _exec_handler(declaration, readiness.exec.command)
    return None


def _http_handler(declaration: RoleDeclaration, *, path: str, port: int, scheme: str) -> Probe:
    if declaration.size == 1:
        return {"httpGet": {"path": path, "port": port, "scheme": scheme}}
    url = f"{scheme.lower()}://127.0.0.1:{port}{path}"
    return _exec_handler(declaration, ("python3", "-c", _ASK, url))


def _exec_handler(declaration: RoleDeclaration, command: tuple[str, ...]) -> Probe:
    if declaration.size == 1 or is_external_dp(declaration):
        return {"exec": {"command": list(command)}}
    return {"exec": {"command": ["sh", "-c", _LEADER_ONLY, "sh", *command]}}


def _probe(handler: Probe, failures: int) -> Probe:
    return {
        **handler,
        "periodSeconds": PERIOD_SECONDS,
        "timeoutSeconds": TIMEOUT_SECONDS,
        "failureThreshold": failures,
        "successThreshold": 1,
    }
