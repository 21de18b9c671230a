"""Where the cluster is: one context of a kubeconfig, or the service account of a Pod (D25).

Content given as text stays in memory: it is neither written to a file nor shown in a message. The
client is not imported here; an unknown context or a missing file is told in one sentence.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from gpustack_deploy.model.errors import Unreachable

SERVICE_HOST_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
SERVICE_ACCOUNT_TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

_NEXT: Final = "set KUBECONFIG or `gpustack:kubeconfig` to a kubeconfig file, then run again"
_PATH_KEYS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_SECTIONS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach the cluster: names only, except for content that the caller keeps secret.

    `kubeconfig` is a path, or a kubeconfig's content when it holds a line break or `apiVersion`;
    empty means KUBECONFIG, then `~/.kube/config`, then the service account of this Pod. `context`
    is one of its contexts; empty means the current one.
    """

    kubeconfig: str = field(default="", repr=False)
    context: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """One context by itself: its cluster and user sections, with absolute paths."""

    context: str
    cluster: Mapping[str, Any] = field(repr=False)
    user: Mapping[str, Any] = field(repr=False)

    @property
    def server(self) -> str:
        """The API server's address."""
        return str(self.cluster["server"])

    def as_kubeconfig(self) -> dict[str, Any]:
        """Return a kubeconfig that holds nothing but this context."""
        name = self.context
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": dict(self.cluster)}],
            "users": [{"name": name, "user": dict(self.user)}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }


def find_access(connection: Connection) -> Access | None:
    """Return the context to use, None for the service account of the Pod this runs in.

    Raises:
        Unreachable: nothing says which cluster to use, or what says it cannot be read.
    """
    given = connection.kubeconfig.strip()
    if "\n" in given or "apiVersion" in given:
        source = "the kubeconfig given as content"
        return _select([_parse(given, source)], connection.context, source)
    paths = _paths(given)
    if paths:
        source = f"kubeconfig {os.pathsep.join(map(str, paths))}"
        return _select([_read(path) for path in paths], connection.context, source)
    if connection.context:
        raise Unreachable(
            f"context {connection.context!r} is asked for and there is no kubeconfig: {_NEXT}"
        )
    return None


def _paths(given: str) -> list[Path]:
    """Return the kubeconfig files that exist; none means that the Pod's own account is used."""
    configured = os.environ.get("KUBECONFIG", "")
    named = [Path(part).expanduser() for part in (given or configured).split(os.pathsep) if part]
    if named:
        found = [path for path in named if path.is_file()]
        if not found:
            origin = "gpustack:kubeconfig" if given else "KUBECONFIG"
            missing = ", ".join(map(str, named))
            raise Unreachable(
                f"{origin} names {missing}, which does not exist; a kubeconfig is needed to reach"
                f" the cluster: {_NEXT}"
            )
        return found
    default = Path.home() / ".kube" / "config"
    if default.is_file():
        return [default]
    if os.environ.get(SERVICE_HOST_VARIABLE) and SERVICE_ACCOUNT_TOKEN.is_file():
        return []
    raise Unreachable(
        f"KUBECONFIG is not set, {default} does not exist and this is no Pod with a service"
        f" account; a cluster is needed: {_NEXT}"
    )


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise Unreachable(f"kubeconfig {path} cannot be read ({reason}): {_NEXT}") from None
    return _with_absolute_paths(_parse(text, f"kubeconfig {path}"), path.absolute().parent)


def _parse(text: str, source: str) -> Mapping[str, Any]:
    # The parser's own message quotes the text around the mistake, which may be a token.
    try:
        parsed = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise Unreachable(f"{source} is no YAML (line {line}): {_NEXT}") from None
    except yaml.YAMLError:
        raise Unreachable(f"{source} is no YAML: {_NEXT}") from None
    if not isinstance(parsed, dict):
        raise Unreachable(f"{source} is no kubeconfig (a mapping is needed): {_NEXT}")
    return parsed


def _select(configs: Sequence[Mapping[str, Any]], wanted: str, source: str) -> Access:
    """Return the wanted context, merged as kubectl does: the first file that names it wins."""
    contexts = _named(configs, "contexts")
    current = next(
        (str(each["current-context"]) for each in configs if each.get("current-context")), ""
    )
    name = wanted or current
    known = ", ".join(sorted(contexts)) or "none"
    if not name:
        raise Unreachable(
            f"{source} names no current context (it has: {known}): set `gpustack:context` to the"
            " one to use, then run again"
        )
    if name not in contexts:
        raise Unreachable(
            f"context {name!r} is not in {source} (it has: {known}): set `gpustack:context` to one"
            " of them, then run again"
        )
    context = contexts[name]
    cluster = _named(configs, "clusters").get(str(context.get("cluster")), {})
    if not cluster.get("server"):
        raise Unreachable(
            f"context {name!r} in {source} leads to cluster {context.get('cluster')!r}, which has"
            " no server there: complete that kubeconfig, then run again"
        )
    user = _named(configs, "users").get(str(context.get("user")), {})
    return Access(context=name, cluster=cluster, user=user)


def _named(configs: Sequence[Mapping[str, Any]], section: str) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for config in configs:
        for entry in config.get(section) or ():
            if isinstance(entry, dict) and isinstance(entry.get(_SECTIONS[section]), dict):
                found.setdefault(str(entry.get("name")), entry[_SECTIONS[section]])
    return found


def _with_absolute_paths(config: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Return the config with the files it names, which are relative to its own folder."""
    for section, inner in _SECTIONS.items():
        for entry in config.get(section) or ():
            details = entry.get(inner) if isinstance(entry, dict) else None
            if not isinstance(details, dict):
                continue
            for key in _PATH_KEYS:
                if details.get(key):
                    details[key] = str(folder / str(details[key]))
            plugin = details.get("exec")
            if isinstance(plugin, dict) and os.sep in str(plugin.get("command", "")):
                plugin["command"] = str(folder / str(plugin["command"]))
    return config
