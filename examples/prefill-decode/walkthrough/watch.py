"""Looks at the deployment again and again while an edit is under way, in a thread of its own."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import TracebackType
from typing import Self

from walkthrough.facts import GROUP, ORDINAL, ROLE, Json, Reader

TOTAL = "kueue.x-k8s.io/pod-group-total-count"
_SECONDS_BETWEEN = 0.2

Usage = Mapping[str, Mapping[str, Fraction]]


@dataclass(frozen=True)
class Look:
    """The Services and the Pods of one moment."""

    services: Mapping[str, str]
    pods: tuple[Json, ...]


@dataclass
class Watched:
    """Every look, in order, and what the queues counted in the end."""

    looks: list[Look] = field(default_factory=list)
    usage: Usage = field(default_factory=dict)
    summed: Usage = field(default_factory=dict)

    def service_uids(self, name: str) -> set[str]:
        """The UIDs under which the Service was seen; an empty one where it was not there."""
        return {look.services.get(name, "") for look in self.looks}

    def disturbed(self, role: str, replicas: int) -> Iterator[set[int]]:
        """For each look, the role's ordinals that have fewer Ready members than their group."""
        for look in self.looks:
            missing = dict.fromkeys(range(replicas), 1)
            serving: dict[int, int] = {}
            for pod in look.pods:
                metadata = pod["metadata"]
                if metadata["labels"][ROLE] == role:
                    ordinal = int(metadata["labels"][ORDINAL])
                    serving[ordinal] = serving.get(ordinal, 0) + int(_is_serving(pod))
                    missing[ordinal] = int(metadata["annotations"][TOTAL]) - serving[ordinal]
            yield {ordinal for ordinal, count in missing.items() if count > 0}

    def mixed(self) -> Iterator[str]:
        """Ordinals that held members of two groups, or more than their group's total."""
        found = set()
        for look in self.looks:
            groups: dict[tuple[str, str], list[Json]] = {}
            for pod in look.pods:
                labels = pod["metadata"]["labels"]
                groups.setdefault((labels[ROLE], labels[ORDINAL]), []).append(pod["metadata"])
            for (role, ordinal), members in groups.items():
                names = {each["labels"][GROUP] for each in members}
                total = int(members[0]["annotations"][TOTAL])
                if len(names) > 1 or len(members) > total:
                    found.add(
                        f"{role} r{ordinal} held {len(members)} members of {len(names)} groups"
                    )
        yield from sorted(found)


class Watch:
    """A context manager that looks five times a second until its block ends."""

    def __init__(self, api: Reader, namespace: str, deployment: str) -> None:
        selector = f"labelSelector=app.kubernetes.io%2Finstance%3D{deployment}"
        core = f"/api/v1/namespaces/{namespace}"
        self._look = lambda: Look(
            {
                each["metadata"]["name"]: each["metadata"]["uid"]
                for each in api.list(f"{core}/services?{selector}")
            },
            tuple(api.list(f"{core}/pods?{selector}")),
        )
        self.watched = Watched()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(self._look,))
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def _watch(self, look: Callable[[], Look]) -> None:
        try:
            while not self._stopped.is_set():
                self.watched.looks.append(look())
                self._stopped.wait(_SECONDS_BETWEEN)
        except Exception as failure:  # noqa: BLE001 - handed to the thread that waits
            self._failure = failure


def _is_serving(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]
