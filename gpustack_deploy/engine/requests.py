"""Requests to the API server as values: method, path, query and body, built in one place.

Pure. Every write names its preconditions here: a delete and a patch carry the UID they are for.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from gpustack_deploy.engine.cluster import Kind
from gpustack_deploy.model import identity
from gpustack_deploy.model.raw import Json, mapping_at, text_at

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"

Query = tuple[tuple[str, str], ...]

_BY_US: Final[Query] = (("fieldManager", identity.FIELD_MANAGER),)


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; `verb` and `plural` are what it counts as."""

    verb: str
    plural: str
    method: str
    path: str
    query: Query = ()
    body: Json | None = None
    content_type: str = JSON

    @property
    def url(self) -> str:
        """The path with its query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def target(self) -> str:
        """What is asked, for a message: verb and path."""
        return f"{self.verb} {self.path}"


def read(kind: Kind, namespace: str, name: str) -> Request:
    """Return the request for one object, at its newest version."""
    return Request("get", kind.plural, "GET", _path(kind, namespace, name))


def list_of(kind: Kind, namespace: str, *, labels: str, name: str) -> Request:
    """Return the request for all objects that match, at their newest versions."""
    return Request(
        "list", kind.plural, "GET", _path(kind, namespace), query=_selection(labels, name)
    )


def watch_of(
    kind: Kind,
    namespace: str,
    *,
    labels: str,
    name: str,
    resource_version: str,
    timeout_seconds: int,
) -> Request:
    """Return the request for what happens after that version."""
    query = (
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", resource_version),
        ("timeoutSeconds", str(timeout_seconds)),
        *_selection(labels, name),
    )
    return Request("watch", kind.plural, "GET", _path(kind, namespace), query=query)


def create(kind: Kind, namespace: str, body: Json, *, dry_run: bool) -> Request:
    """Return the request that creates the object, or asks whether it would be."""
    query = (("dryRun", "All"), *_BY_US) if dry_run else _BY_US
    whole = {"apiVersion": kind.api_version, "kind": kind.name, **body}
    return Request("create", kind.plural, "POST", _path(kind, namespace), query=query, body=whole)


def replace(kind: Kind, namespace: str, name: str, body: Json) -> Request:
    """Return the request that replaces the object at the body's resourceVersion."""
    whole = {"apiVersion": kind.api_version, "kind": kind.name, **body}
    return Request(
        "replace", kind.plural, "PUT", _path(kind, namespace, name), query=_BY_US, body=whole
    )


def patch(kind: Kind, namespace: str, name: str, body: Json, *, uid: str) -> Request:
    """Return the merge patch bound to the object of that UID."""
    bound = {**body, "metadata": {**mapping_at(body, "metadata"), "uid": uid}}
    return Request(
        "patch",
        kind.plural,
        "PATCH",
        _path(kind, namespace, name),
        query=_BY_US,
        body=bound,
        content_type=MERGE_PATCH,
    )


def delete(
    kind: Kind, namespace: str, name: str, *, uid: str, grace_period_seconds: int | None
) -> Request:
    """Return the request that deletes exactly that object, its dependents after it."""
    options: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid},
        "propagationPolicy": "Background",
    }
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    return Request("delete", kind.plural, "DELETE", _path(kind, namespace, name), body=options)


def discover(kind: Kind) -> Request:
    """Return the request for the kinds that the API server serves in that group and version."""
    return Request("discover", kind.plural, "GET", _root(kind))


def served_plurals(answer: Json) -> frozenset[str]:
    """Return the plurals that a discovery answer lists, without subresources."""
    resources = answer.get("resources")
    names = [text_at(each, "name") for each in resources] if isinstance(resources, list) else []
    return frozenset(name for name in names if name and "/" not in name)


def _root(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def _path(kind: Kind, namespace: str, name: str = "") -> str:
    parts = [_root(kind)]
    if kind.is_namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(kind.plural)
    if name:
        parts.append(quote(name, safe=""))
    return "/".join(parts)


def _selection(labels: str, name: str) -> Query:
    query: Query = (("labelSelector", labels),) if labels else ()
    return (*query, ("fieldSelector", f"metadata.name={name}")) if name else query
