"""What happens by itself in a cluster, as named actions that a test orders as it likes.

Each controller offers the actions that its last reading of the store enables. An action writes
with the versions it was made from, so a stale one conflicts and is dropped, as in a real cluster.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpustack_deploy.engine.cluster import NAMESPACE, NODE, Kind
from gpustack_deploy.model.errors import Conflict, NotFound, Refused
from tests.fakes.kubelet import Kubelet
from tests.fakes.objects import copy_of, is_terminating, meta, name_of, namespace_of, uid_of
from tests.fakes.steps import Action

if TYPE_CHECKING:
    from tests.fakes.kueue import FakeKueue
    from tests.fakes.store import Store

Chooser = Callable[[Sequence[Action]], Action]

# Far more than any test needs: a settle that gets here goes round in circles.
_STEP_LIMIT: Final = 200_000


def first(actions: Sequence[Action]) -> Action:
    """Choose deterministically: what clears away comes before what makes new things."""
    return actions[0]


@dataclass
class World:
    """The garbage collector, the namespace controller, the kubelet and Kueue together."""

    store: "Store"
    kueue: "FakeKueue"

    def __post_init__(self) -> None:
        self.kubelet = Kubelet(self.store)
        self.is_paused = False

    def actions(self) -> list[Action]:
        """Return everything that may happen next, due now or later."""
        if self.is_paused:
            return []
        return [
            *self._namespace_actions(),
            *self._garbage(),
            *self.kubelet.actions(),
            *self.kueue.actions(),
        ]

    def enabled(self) -> list[Action]:
        """Return what may happen now."""
        now = self.store.clock.seconds
        return [action for action in self.actions() if action.due_seconds <= now]

    def next_due(self) -> float | None:
        """Return the virtual second at which something may happen, None when nothing ever will."""
        return min((action.due_seconds for action in self.actions()), default=None)

    def step(self, choose: Chooser = first) -> str:
        """Perform one enabled action; return its name, or nothing when none is enabled."""
        enabled = self.enabled()
        if not enabled:
            return ""
        action = choose(enabled)
        perform(action)
        return action.name

    def sweep(self) -> None:
        """Perform each action that is enabled now, once."""
        for action in self.enabled():
            perform(action)

    def settle(self, choose: Chooser = first) -> None:
        """Perform actions, moving the clock on where all of them are later, until none is left."""
        for _ in range(_STEP_LIMIT):
            if self.step(choose):
                continue
            due = self.next_due()
            if due is None:
                return
            clock = self.store.clock
            clock.advance(max(due - clock.seconds, 0))
        raise AssertionError(f"the world does not settle: {[a.name for a in self.actions()]}")

    # --- nodes, as an administrator or a power cut changes them ---

    def lose_node(self, name: str) -> None:
        """The node's kubelet falls silent: its Pods stay as they are, not Ready."""
        self.kubelet.lose_node(name)

    def return_node(self, name: str) -> None:
        """The node is back and its kubelet acts again."""
        self.kubelet.return_node(name)

    def remove_node(self, name: str) -> None:
        """Delete the Node object: the Pod garbage collector removes its Pods."""
        node = self.store.get(NODE, "", name)
        self.store.delete(NODE, "", name, uid=uid_of(node))

    # --- inside ---

    def _garbage(self) -> Iterator[Action]:
        """Delete what has owners of which none is left; drop references to owners that are gone."""
        live = {uid_of(obj) for held in self.store.objects.values() for obj in held.values()}
        for kind, held in self.store.objects.items():
            for obj in held.values():
                owners = meta(obj).get("ownerReferences") or []
                left = [owner for owner in owners if owner["uid"] in live]
                if not owners or len(left) == len(owners) or is_terminating(obj):
                    continue
                if left:
                    yield Action(
                        f"gc: trim {_label(kind, name_of(obj))}", _trim(self.store, kind, obj, left)
                    )
                else:
                    yield Action(
                        f"gc: delete {_label(kind, name_of(obj))}", _delete(self.store, kind, obj)
                    )

    def _namespace_actions(self) -> Iterator[Action]:
        """Empty a terminating namespace, Pods first, then let it go."""
        for namespace in self.store.each(NAMESPACE):
            if not is_terminating(namespace):
                continue
            name = name_of(namespace)
            inside = [
                (kind, obj)
                for kind, held in self.store.objects.items()
                for obj in held.values()
                if kind.is_namespaced and namespace_of(obj) == name
            ]
            pods = [(kind, obj) for kind, obj in inside if kind.name == "Pod"]
            for kind, obj in pods or inside:
                if not is_terminating(obj):
                    yield Action(
                        f"namespace: delete {_label(kind, name_of(obj))}",
                        _delete(self.store, kind, obj),
                    )
            if not inside:
                yield Action(f"namespace: finish {name}", _strip(self.store, namespace))


def perform(action: Action) -> None:
    """Run it; one that somebody else overtook is dropped."""
    try:
        action.run()
    except (Conflict, NotFound, Refused):
        return


def _label(kind: Kind, name: str) -> str:
    return f"{kind.name} {name}"


def _trim(
    store: "Store", kind: Kind, obj: dict[str, object], left: list[object]
) -> Callable[[], None]:
    def run() -> None:
        wanted = copy_of(obj)
        meta(wanted)["ownerReferences"] = left
        store.update(kind, wanted)

    return run


def _delete(store: "Store", kind: Kind, obj: dict[str, object]) -> Callable[[], None]:
    def run() -> None:
        store.delete(kind, namespace_of(obj), name_of(obj), uid=uid_of(obj))

    return run


def _strip(store: "Store", namespace: dict[str, object]) -> Callable[[], None]:
    def run() -> None:
        wanted = copy_of(namespace)
        meta(wanted)["finalizers"] = []
        store.update(NAMESPACE, wanted)

    return run


def counted(actions: Sequence[Action]) -> dict[str, int]:
    """Return how many actions of each controller are offered: a test's failure text."""
    names = sorted(action.name.split(":")[0] for action in actions)
    return {name: len(list(group)) for name, group in itertools.groupby(names)}
