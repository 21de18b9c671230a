"""Rules about names, the set of roles, the image, readiness and the pod and service blocks."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from gpustack_deploy.model import identity
from gpustack_deploy.model.declared import DNS_LABEL, is_label_key, is_label_value
from gpustack_deploy.model.image import image_of
from gpustack_deploy.model.paths import path_of, steps_of
from gpustack_deploy.model.refusals import Problem
from gpustack_deploy.model.role import RoleDeclaration, RoleKind
from gpustack_deploy.model.rule import Rule

MAX_ROLES: Final = 10
_SERVICE_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_MAX_NAME_LENGTH: Final = 63
_LABEL_NEEDED: Final = (
    f"needed a DNS label of at most {_MAX_NAME_LENGTH} lower-case letters, digits and dashes that"
    " begins with a letter and has no dots"
)
_HOSTNAME_LEVEL: Final = "kubernetes.io/hostname"

_RESERVED_PREFIXES: Final = ("kueue.x-k8s.io/", "modeldeployment.gpustack.ai/")
_RESERVED_KEYS: Final = frozenset(
    {
        identity.LABEL_NAME,
        identity.LABEL_DEPLOYMENT,
        identity.LABEL_ROLE,
        identity.LABEL_PART_OF,
        identity.ANNOTATION_PROMETHEUS_SCRAPE,
        identity.ANNOTATION_PROMETHEUS_PATH,
        identity.ANNOTATION_PROMETHEUS_PORT,
        identity.ANNOTATION_PROMETHEUS_SCHEME,
    }
)


def set_problems(kinds: Mapping[str, RoleKind]) -> Iterator[tuple[str, str]]:
    """Yield the name of a role and why the set of roles is refused (an empty name: all of them)."""
    if len(kinds) > MAX_ROLES:
        reason = f"found {len(kinds)} roles, needed 1 to {MAX_ROLES}, a bound of this product"
        yield "", f"{reason}; split the deployment"
    has_server = RoleKind.SERVER in kinds.values()
    seen: dict[RoleKind, str] = {}
    for name, kind in kinds.items():
        if kind is RoleKind.SERVER:
            continue
        if has_server:
            reason = f"found kind {kind} beside a Server, which serves whole requests by itself"
            needed = "needed Servers only, or one Prefill and one Decode"
            yield name, f"{reason}; {needed}; declare two deployments"
        elif kind in seen:
            reason = f"found a second {kind} beside role {seen[kind]!r}"
            needed = "needed at most one of each half of a pair"
            yield name, f"{reason}; {needed}; raise the `replicas` of {seen[kind]!r}"
        seen.setdefault(kind, name)


def _role_set(declaration: RoleDeclaration) -> Iterator[Problem]:
    kinds = declaration.role_kinds
    for name in kinds:
        if re.fullmatch(DNS_LABEL, name, re.ASCII) is None or len(name) > _MAX_NAME_LENGTH:
            yield Problem(
                path_of(("roleKinds", name)),
                f"found role name {name!r}, needed lower-case letters, digits and dashes, at most"
                f" {_MAX_NAME_LENGTH}; rename the role",
            )
    for name, reason in set_problems(kinds):
        yield Problem(path_of(("roleKinds", name)) if name else "roleKinds", reason)
    if kinds.get(declaration.role) is not declaration.kind:
        listed = kinds.get(declaration.role)
        yield Problem(
            "roleKinds",
            f"found {f'kind {listed}' if listed else 'no entry'} for role {declaration.role!r},"
            f" needed its kind {declaration.kind}; list every role of the deployment with its kind",
        )
    if declaration.front_role not in kinds:
        yield Problem(
            "frontRole",
            f"found {declaration.front_role!r}, needed one of the roles {', '.join(sorted(kinds))};"
            " name one of them",
        )


def _service_names(declaration: RoleDeclaration) -> Iterator[Problem]:
    deployment, role = declaration.deployment, declaration.role
    service = identity.role_service_name(deployment, role)
    if _SERVICE_NAME.fullmatch(deployment) is None:
        yield Problem(
            "deployment",
            f"found Service name {deployment!r} ({len(deployment)} characters), {_LABEL_NEEDED};"
            " rename the deployment",
        )
        return
    if _SERVICE_NAME.fullmatch(service) is None:
        yield Problem(
            "role",
            f"found Service name {service!r} ({len(service)} characters), {_LABEL_NEEDED}; shorten"
            " or rename the deployment or the role",
        )
    if declaration.size == 1:
        return
    for ordinal in range(declaration.replicas):
        peer = identity.peer_service_name(deployment, role, ordinal)
        for other in declaration.role_kinds:
            if identity.role_service_name(deployment, other) == peer:
                yield Problem(
                    "role",
                    f"found Service name {peer!r} claimed by replica {ordinal} of role {role!r} and"
                    f" by role {other!r}, needed distinct names; rename one of the two roles",
                )
    last = identity.member_name(deployment, role, declaration.replicas - 1, declaration.size - 1)
    if len(last) > _MAX_NAME_LENGTH:
        yield Problem(
            "role",
            f"found member name {last!r} ({len(last)} characters), needed a hostname of at most"
            f" {_MAX_NAME_LENGTH}; shorten the role's name, shorten the deployment's name, or"
            " declare fewer replicas",
        )


def _image(declaration: RoleDeclaration) -> Iterator[Problem]:
    if image_of(declaration) is not None:
        return
    instance_type = declaration.instance_type
    missing = [
        name
        for name, value in (
            ("`engine.version`", declaration.engine.version),
            ("`instanceType.runtimeVersion`", instance_type.runtime_version),
            ("`instanceType.backend`", instance_type.runner_backend),
        )
        if not value
    ] or ["`instanceType.runtimeVariant`"]
    yield Problem(
        "image",
        f"found no image, and {' and '.join(missing)} would be needed to name the runner image; set"
        f" `image`, or set {' and '.join(missing)}",
    )


def _readiness(declaration: RoleDeclaration) -> Iterator[Problem]:
    readiness = declaration.readiness
    if readiness is None:
        return
    if declaration.is_managed:
        yield Problem(
            "readiness",
            "found it on a role whose command line is built here and is asked on /health, needed a"
            " role with `command`; remove it, or write `command`",
        )
    given = [name for name in ("http", "exec") if getattr(readiness, name) is not None]
    if len(given) != 1:
        yield Problem(
            "readiness",
            f"found {' and '.join(given) or 'neither http nor exec'}, needed exactly one of http"
            " and exec; keep one",
        )


def _topology(declaration: RoleDeclaration) -> Iterator[Problem]:
    level = declaration.topology.required_level if declaration.topology else None
    if level is None:
        return
    if level == _HOSTNAME_LEVEL:
        yield Problem(
            "topology.requiredLevel",
            f"found {level!r}, which is implicit and cannot be asked for; name a level above the"
            " node, or remove it",
        )
    elif not is_label_key(level):
        yield Problem(
            "topology.requiredLevel",
            f"found {level!r}, needed a node label's key such as topology.kubernetes.io/zone; name"
            " a level of the Topology",
        )


def _pod_and_service(declaration: RoleDeclaration) -> Iterator[Problem]:
    pod, service = declaration.pod, declaration.service
    yield from _keys("pod.labels", pod.labels, is_label=True)
    yield from _keys("pod.annotations", pod.annotations)
    yield from _keys("service.labels", service.labels, is_label=True)
    yield from _keys("service.annotations", service.annotations)
    for key, value in pod.node_selector.items():
        yield from _spelling("pod.nodeSelector", key, value, is_label=True)


def _keys(path: str, entries: Mapping[str, str], *, is_label: bool = False) -> Iterator[Problem]:
    for key, value in entries.items():
        if key in _RESERVED_KEYS or key.startswith(_RESERVED_PREFIXES):
            yield Problem(
                path_of((*steps_of(path), key)),
                f"found the key {key!r}, which is written here, needed one of your own; remove it",
            )
        else:
            yield from _spelling(path, key, value, is_label=is_label)


def _spelling(path: str, key: str, value: str, *, is_label: bool) -> Iterator[Problem]:
    if not is_label_key(key):
        yield Problem(
            path_of((*steps_of(path), key)),
            f"found the key {key!r}, needed [prefix/]name of letters, digits, '-', '_' and '.';"
            " rename it",
        )
    if is_label and not is_label_value(value):
        yield Problem(
            path_of((*steps_of(path), key)),
            "found a value that is no label value, needed at most 63 letters, digits, '-', '_' and"
            " '.'; shorten or rename it",
        )


NAMING_RULES: Final = (
    Rule(_role_set, reads=("role", "kind", "roleKinds", "frontRole")),
    Rule(_service_names, reads=("deployment", "role", "roleKinds", "replicas", "size")),
    Rule(
        _image,
        reads=(
            "engine.version",
            "instanceType.backend",
            "instanceType.acceleratorGroup",
            "instanceType.runtimeVersion",
            "instanceType.runtimeVariant",
        ),
    ),
    Rule(_readiness, reads=("command",)),
    Rule(_topology),
    Rule(_pod_and_service),
)
