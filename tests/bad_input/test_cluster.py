"""What only the cluster can refuse, on a real API server and a real Kueue: at a create, at an edit.

Nothing is written, nothing is deleted, and a standing role keeps every object it has.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from gpustack_deploy.model.errors import (
    AdmissionRefused,
    ForeignObject,
    GpustackDeployError,
    InvalidSpec,
    KueueNotManaging,
)
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.state import RoleState
from gpustack_deploy.sandbox import Sandbox
from tests.bad_input.sentence import assert_sentence, untouched
from tests.integration.place import KUEUE, Place, instance_type

pytestmark = pytest.mark.ci

KEPT = ("nothing was deleted or written", "change the declaration or the policy")
TAKEN = ("is not owned by this role", "this name is needed", "rename", "nothing was changed")


def refused(
    place: Place,
    error: type[GpustackDeployError],
    declared: RoleDeclaration,
    state: RoleState | None = None,
) -> str:
    """The sentence of a create or, with a state, of an edit; neither touches anything."""
    with untouched(place), pytest.raises(error) as refusal:
        _ = place.update(declared, state) if state else place.create(declared)
    return str(refusal.value)


# --- the namespace and its queues -----------------------------------------------------------


def test_a_namespace_that_does_not_exist(place: Place) -> None:
    absent = place.declared(namespace=f"{place.namespace}-absent")
    sentence = refused(place, InvalidSpec, absent)
    assert_sentence(sentence, "namespace: ", "-absent does not exist", "create it first")


@pytest.fixture
def unmanaged(sandbox: Sandbox) -> Iterator[Place]:
    """A namespace that Kueue's managedJobsNamespaceSelector leaves out, with a queue in it."""
    sandbox.add_namespace("kueue-system")
    made = Place(sandbox, "kueue-system")
    yield made
    for queue in sandbox.api.list(f"{KUEUE}/namespaces/kueue-system/localqueues"):
        name = queue["metadata"]["name"]
        sandbox.api.delete(f"{KUEUE}/namespaces/kueue-system/localqueues/{name}")
    made.clear()


def test_a_namespace_that_kueue_does_not_manage(unmanaged: Place) -> None:
    assert_sentence(
        refused(unmanaged, KueueNotManaging, unmanaged.declared()),
        "Kueue does not manage Pods in namespace kueue-system",
        "lacks Kueue's scheduling gate, finalizer, label",
        "let its managedJobsNamespaceSelector match this namespace",
        "nothing was left behind",
    )


def test_a_queue_that_does_not_exist(place: Place) -> None:
    state = place.create(place.declared(replicas=2))
    parts = ("instanceType.localQueue: ", "has no LocalQueue b200", "create it, or name one")
    elsewhere: dict[str, Any] = {"instanceType": instance_type("b200")}
    other = place.declared(deployment="other", **elsewhere)
    assert_sentence(refused(place, InvalidSpec, other), *parts)
    edited = place.declared(replicas=2, **elsewhere)
    assert_sentence(refused(place, InvalidSpec, edited, state), *parts)


def test_a_queue_that_was_removed_under_a_standing_role(place: Place) -> None:
    state = place.create(place.declared(replicas=2))
    place.api.delete(f"{KUEUE}/namespaces/{place.namespace}/localqueues/h200")
    edited = place.declared(replicas=2, resources={"count": 2})
    sentence = refused(place, InvalidSpec, edited, state)
    assert_sentence(sentence, "has no LocalQueue h200", "create it, or name one")


# --- Pods that are refused ------------------------------------------------------------------


def restrict(place: Place) -> None:
    """PodSecurity at the level that a Pod which says nothing of its user does not reach."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    place.api.patch(place.core, {"metadata": {"labels": labels}})


def limit(place: Place, **most: str) -> None:
    """A LimitRange: at most that much for each container."""
    place.api.create(
        f"{place.core}/limitranges",
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "small"},
            "spec": {"limits": [{"type": "Container", "max": most}]},
        },
    )


def test_a_pod_that_pod_security_refuses_at_a_create(place: Place) -> None:
    restrict(place)
    sentence = refused(place, AdmissionRefused, place.declared())
    assert_sentence(sentence, 'violates PodSecurity "restricted', *KEPT)


def test_a_pod_that_pod_security_refuses_at_an_edit(place: Place) -> None:
    state = place.create(place.declared(replicas=2, size=2))
    restrict(place)
    edited = place.declared(replicas=2, size=2, resources={"count": 2})
    sentence = refused(place, AdmissionRefused, edited, state)
    assert_sentence(sentence, 'violates PodSecurity "restricted', *KEPT)
    assert place.record()["slot"] is None
    assert not place.is_converged(edited, state)


def test_a_pod_that_a_limit_range_refuses_at_a_create(place: Place) -> None:
    limit(place, cpu="1")
    sentence = refused(place, AdmissionRefused, place.declared())
    assert_sentence(sentence, "maximum cpu usage per Container is 1", *KEPT)


def test_a_pod_that_a_limit_range_refuses_at_an_edit(place: Place) -> None:
    state = place.create(place.declared(replicas=2))
    limit(place, cpu="6")
    edited = place.declared(replicas=2, resources={"count": 2})
    sentence = refused(place, AdmissionRefused, edited, state)
    assert_sentence(sentence, "maximum cpu usage per Container is 6", *KEPT)
    # What the limit allows goes on: the role is held by nothing.
    place.update(place.declared(replicas=2, env=[{"name": "A", "value": "1"}]), state)
    assert all(replica.is_served for replica in place.replicas().values())


def test_a_scale_up_that_is_refused_beside_an_edit_that_shrinks_keeps_everything(
    place: Place,
) -> None:
    state = place.create(place.declared(replicas=3))
    restrict(place)
    edited = place.declared(replicas=2, resources={"count": 2})
    sentence = refused(place, AdmissionRefused, edited, state)
    assert_sentence(sentence, 'violates PodSecurity "restricted', *KEPT)


# --- names that are taken -------------------------------------------------------------------


def service(place: Place, name: str, **metadata: Any) -> str:
    """Someone else's Service; returns its UID."""
    made = place.api.create(
        f"{place.core}/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, **metadata},
            "spec": {"clusterIP": "None", "selector": {"app": "theirs"}},
        },
    )
    return str(made["metadata"]["uid"])


def owned(place: Place) -> dict[str, Any]:
    """Metadata that names a controller, which stands: what names an absent one is collected."""
    account = place.api.get(f"{place.core}/serviceaccounts/default")["metadata"]
    owner = {"apiVersion": "v1", "kind": "ServiceAccount", "controller": True}
    return {"ownerReferences": [{**owner, "name": account["name"], "uid": account["uid"]}]}


@pytest.mark.parametrize("name", ["chat", "chat-server", "chat-server-r1"])
@pytest.mark.parametrize("is_owned", [False, True], ids=["nobody's", "a controller's"])
def test_a_service_of_our_name_at_a_create(place: Place, name: str, is_owned: bool) -> None:
    uid = service(place, name, **(owned(place) if is_owned else {}))
    sentence = refused(place, ForeignObject, place.declared(replicas=2, size=2))
    assert_sentence(sentence, f"Service {name} (uid {uid})", *TAKEN)


def test_a_service_of_our_name_at_an_edit(place: Place) -> None:
    state = place.create(place.declared(replicas=2))
    uid = service(place, "chat-server-r1")
    sentence = refused(place, ForeignObject, place.declared(replicas=2, size=2), state)
    assert_sentence(sentence, f"Service chat-server-r1 (uid {uid})", *TAKEN)
    assert place.record()["slot"] is None


def test_a_service_that_someone_put_in_the_place_of_ours(place: Place) -> None:
    state = place.create(place.declared(replicas=2))
    place.api.delete(f"{place.core}/services/chat-server")
    uid = service(place, "chat-server")
    sentence = refused(place, ForeignObject, place.declared(replicas=2, size=2), state)
    assert_sentence(sentence, f"Service chat-server (uid {uid})", *TAKEN)


def test_two_deployments_whose_services_meet(place: Place) -> None:
    """The front Service of `chat-server` would be the role Service of `chat`."""
    place.create(place.declared())
    uid = place.service_uids()["chat-server"]
    sentence = refused(place, ForeignObject, place.declared(deployment="chat-server"))
    assert_sentence(sentence, f"Service chat-server (uid {uid})", *TAKEN)


def config_map(place: Place, name: str, **metadata: Any) -> str:
    """Someone else's ConfigMap; returns its UID."""
    made = place.api.create(
        f"{place.core}/configmaps",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, **metadata},
            "data": {"record": "{}"},
        },
    )
    return str(made["metadata"]["uid"])


def test_a_record_of_our_name(place: Place) -> None:
    uid = config_map(place, "chat-server")
    sentence = refused(place, ForeignObject, place.declared())
    assert_sentence(sentence, f"ConfigMap chat-server (uid {uid})", *TAKEN)


def test_two_deployments_whose_records_meet(place: Place) -> None:
    """`chat` with role `server-a` and `chat-server` with role `a` would share `chat-server-a`."""
    first = place.declared("server-a", roleKinds={"server-a": "Server"}, frontRole="server-a")
    place.create(first)
    other = {"deployment": "chat-server", "roleKinds": {"a": "Server"}, "frontRole": "a"}
    sentence = refused(place, ForeignObject, place.declared("a", **other))
    assert_sentence(sentence, "ConfigMap chat-server-a (uid ", "of another role", *TAKEN)


def test_a_record_that_lost_its_labels_is_nobody_s(place: Place) -> None:
    state = place.create(place.declared())
    found = place.api.get(f"{place.core}/configmaps/chat-server")
    labels = {"metadata": {"labels": dict.fromkeys(found["metadata"]["labels"])}}
    place.api.patch(f"{place.core}/configmaps/chat-server", labels)
    edited = place.declared(resources={"count": 2})
    parts = (f"ConfigMap chat-server (uid {state.record_uid})", *TAKEN)
    assert_sentence(refused(place, ForeignObject, edited, state), *parts)
    with untouched(place), pytest.raises(ForeignObject) as refusal:
        place.destroy(edited, state)
    assert_sentence(str(refusal.value), *parts)


def test_a_record_that_is_none(place: Place) -> None:
    labels = {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": "chat",
        "app.kubernetes.io/component": "server",
        "modeldeployment.gpustack.ai/record": "true",
    }
    config_map(place, "chat-server", labels=labels)
    sentence = refused(place, GpustackDeployError, place.declared())
    assert_sentence(
        sentence,
        "ConfigMap chat-server holds a record that cannot be read",
        "restore it from a backup",
        "nothing was changed",
    )
