"""Whole runs of the engine, in virtual time: what each edit does, and what it leaves alone."""

from collections.abc import Iterator

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP, POD, SERVICE, WORKLOAD, Change
from gpustack_deploy.model.role import RoleDeclaration
from tests.declarations import H200, role
from tests.engine_stage import GPU, Stage
from tests.fakes.objects import Object, is_terminating, labels_of, name_of, phase_of

pytestmark = pytest.mark.check

A100 = {**H200, "name": "a100", "localQueue": "a100"}
COMMAND = ["python", "-m", "serve"]


def declared(**fields: object) -> RoleDeclaration:
    """Two replicas of one member with two cards each."""
    return role(**{"replicas": 2, "resources": {"count": 2}, **fields})


TWO = declared()
PAIRS = declared(size=2)


def moments(stage: Stage, before: dict[str, Object]) -> Iterator[dict[str, Object]]:
    """The Pods by name after each change that any of them saw."""
    pods = dict(before)
    for revision in stage.cluster.store.history:
        if revision.kind == POD:
            if revision.change is Change.DELETED:
                pods.pop(name_of(revision.obj), None)
            else:
                pods[name_of(revision.obj)] = revision.obj
            yield pods


# --- create ---


@pytest.mark.parametrize("declaration", [TWO, PAIRS], ids=["single", "pairs"])
def test_a_create_ends_with_the_role_as_declared(declaration: RoleDeclaration) -> None:
    stage = Stage()
    state = stage.create(declaration)
    stage.stands(declaration)
    stage.uses_what_stands()
    assert state.is_finished
    assert (2, declaration.size) == (state.replicas, state.size)
    assert stage.uids(CONFIG_MAP)["chat-server"] == state.record_uid


def test_the_record_is_the_first_object_and_services_come_before_members() -> None:
    stage = Stage()
    stage.create(PAIRS)
    made = [
        revision.kind.name
        for revision in stage.cluster.store.history
        if revision.change is Change.ADDED and revision.kind in (CONFIG_MAP, SERVICE, POD)
    ]
    assert ["ConfigMap", *["Service"] * 4, *["Pod"] * 4] == made


def test_ordinals_beyond_the_quota_are_created_and_wait() -> None:
    stage = Stage(gpus=2)
    error = stage.held(lambda: stage.create(TWO, bounds_admission_wait=True))
    assert ("NotAdmitted", 1) == (error.check, error.ordinal)
    assert ["chat-server-r0-m0", "chat-server-r1-m0"] == stage.cluster.names(POD)


# --- edits ---

EDITS = [
    pytest.param(TWO, PAIRS, id="size up"),
    pytest.param(PAIRS, TWO, id="size down"),
    pytest.param(TWO, declared(resources={"count": 4}), id="resources"),
    pytest.param(TWO, declared(command=COMMAND), id="command"),
    pytest.param(declared(command=COMMAND), TWO, id="command back"),
    pytest.param(TWO, declared(image="vllm/vllm-openai:v0.12.0"), id="image"),
    pytest.param(TWO, declared(instanceType=A100), id="instance type of another queue"),
    pytest.param(
        TWO,
        declared(size=2, command=COMMAND, resources={"count": 1}, instanceType=A100),
        id="four fields at once",
    ),
]


@pytest.mark.parametrize(("before", "after"), EDITS)
def test_an_edit_replaces_every_replica_one_at_a_time_at_its_price(
    before: RoleDeclaration, after: RoleDeclaration
) -> None:
    stage = Stage(other_queues=("a100",))
    state = stage.create(before)
    old = {kind: stage.uids(kind) for kind in (POD, WORKLOAD, SERVICE, CONFIG_MAP)}
    addresses = cluster_ips(stage)
    pods = {name_of(pod): pod for pod in stage.cluster.objects(POD)}
    stage.cluster.store.compact()
    done = stage.update(after, state)

    stage.stands(after)
    stage.uses_what_stands()
    assert set(old[POD].values()).isdisjoint(stage.uids(POD).values())
    assert old[WORKLOAD].keys().isdisjoint(stage.uids(WORKLOAD))
    assert old[CONFIG_MAP] == stage.uids(CONFIG_MAP)
    kept = old[SERVICE].keys() & stage.uids(SERVICE).keys()
    assert {"chat", "chat-server"} <= kept
    for name in kept:
        assert (old[SERVICE][name], addresses[name]) == (
            stage.uids(SERVICE)[name],
            cluster_ips(stage)[name],
        )
    assert state.fingerprint != done.fingerprint
    assert (state.record_uid, state.claim) == (done.record_uid, done.claim)
    assert 1 >= max(len(down(each)) for each in moments(stage, pods))
    costs_no_more_than_it_should(stage, before, after)


def cluster_ips(stage: Stage) -> dict[str, str]:
    return {name_of(each): each["spec"]["clusterIP"] for each in stage.cluster.objects(SERVICE)}


def down(pods: dict[str, Object]) -> set[str]:
    """The ordinals with a member that leaves, has ended or does not run yet."""
    return {
        labels_of(pod)["modeldeployment.gpustack.ai/pod-ordinal"]
        for pod in pods.values()
        if is_terminating(pod) or phase_of(pod) != "Running"
    }


def costs_no_more_than_it_should(
    stage: Stage, before: RoleDeclaration, after: RoleDeclaration
) -> None:
    """2S members, one Workload, one dry run and four writes of the record for each replica.

    Two Services move their selectors at most twice; peers and withdrawn labels come on top, and one
    write that takes the lock.
    """
    counted, replicas = stage.counted, after.replicas
    assert replicas * (after.size + 1) >= counted["create pods"]
    assert replicas * before.size == counted["delete pods"]
    assert replicas == counted["delete workloads"]
    assert 4 * replicas + 1 >= counted["replace configmaps"]
    assert 4 >= counted["patch services"]
    of_replicas = sum(counted[call] for call in ("create pods", "delete pods", "delete workloads"))
    mean_size = (before.size + after.size) / 2
    assert replicas * (2 * mean_size + 6) + 1 >= of_replicas + counted["replace configmaps"]


def test_the_highest_ordinal_goes_first_and_the_run_says_why() -> None:
    stage = Stage()
    state = stage.create(TWO)
    stage.lines.clear()
    stage.update(PAIRS, state)
    phases = [line for line in stage.lines if not line.endswith(")")]
    assert [
        "server r1: replacing: built from an earlier declaration",
        "server r1: creating anew: the ordinal is vacant",
        "server r1: members stand: every member of the replacement stands",
        "server r1: replaced: a fresh admission describes its members and the gate is passed",
        "server r0: replacing: built from an earlier declaration",
        "server r0: creating anew: the ordinal is vacant",
        "server r0: members stand: every member of the replacement stands",
        "server r0: replaced: a fresh admission describes its members and the gate is passed",
    ] == phases


def test_a_sibling_role_keeps_every_object() -> None:
    kinds = {"prefill": "Prefill", "decode": "Decode"}
    pair: dict[str, object] = {
        "roleKinds": kinds,
        "frontRole": "prefill",
        "kvTransfer": {"protocol": "TCP"},
    }
    prefill = declared(role="prefill", kind="Prefill", **pair)
    decode = declared(role="decode", kind="Decode", **pair)
    stage = Stage()
    stage.create(prefill)
    state = stage.create(decode)
    of_sibling = {
        kind: {name: uid for name, uid in stage.uids(kind).items() if "decode" not in name}
        for kind in (POD, WORKLOAD, SERVICE)
    }
    stage.update(declared(role="decode", kind="Decode", size=2, **pair), state)
    for kind, want in of_sibling.items():
        assert want == {name: uid for name, uid in stage.uids(kind).items() if "decode" not in name}
    stage.stands(prefill)


# --- peer Services ---


def service_moments(stage: Stage) -> Iterator[tuple[set[str], dict[str, Object]]]:
    """The names of Services and the Pods, after each change of either."""
    services: set[str] = set()
    pods: dict[str, Object] = {}
    for revision in stage.cluster.store.history:
        name = name_of(revision.obj)
        if revision.kind == SERVICE:
            (services.discard if revision.change is Change.DELETED else services.add)(name)
        elif revision.kind == POD:
            if revision.change is Change.DELETED:
                pods.pop(name, None)
            else:
                pods[name] = revision.obj
        else:
            continue
        yield services, pods


@pytest.mark.parametrize(
    "edit", [declared(), declared(size=3), declared(replicas=1, size=2)], ids=["1", "3", "fewer"]
)
def test_a_peer_service_stands_while_a_member_of_a_pair_does(edit: RoleDeclaration) -> None:
    stage = Stage(gpus=32)
    state = stage.create(PAIRS)
    stage.update(edit, state)
    stage.stands(edit)
    for services, pods in service_moments(stage):
        for pod in pods.values():
            total = pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"]
            if int(total) > 1:
                ordinal = labels_of(pod)["modeldeployment.gpustack.ai/pod-ordinal"]
                assert f"chat-server-r{ordinal}" in services


def test_the_front_never_selects_a_follower() -> None:
    stage = Stage()
    state = stage.create(PAIRS)
    stage.update(TWO, state)
    selectors: dict[str, dict[str, str]] = {"chat": {}, "chat-server": {}}
    pods: dict[str, Object] = {}
    for revision in stage.cluster.store.history:
        name = name_of(revision.obj)
        if revision.kind == SERVICE and name in selectors:
            selectors[name] = revision.obj["spec"]["selector"]
        if revision.kind == POD:
            pods[name] = revision.obj
            if revision.change is Change.DELETED:
                del pods[name]
        followers = [pod for each, pod in pods.items() if not each.endswith("-m0")]
        for selector in selectors.values():
            assert [] == [
                name_of(pod) for pod in followers if selector.items() <= labels_of(pod).items()
            ]


# --- counts ---


def test_more_replicas_restart_nobody() -> None:
    stage = Stage()
    state = stage.create(TWO)
    old = stage.uids(POD)
    more = declared(replicas=4)
    stage.update(more, state)
    stage.stands(more)
    assert old.items() <= stage.uids(POD).items()


def test_fewer_replicas_leave_highest_first_and_restart_nobody() -> None:
    four = declared(replicas=4)
    stage = Stage()
    state = stage.create(four)
    old = stage.uids(POD)
    stage.update(TWO, state)
    stage.stands(TWO)
    stage.uses_what_stands()
    assert stage.uids(POD).items() < old.items()


def test_an_ordinal_that_returns_has_a_fresh_group() -> None:
    stage = Stage()
    state = stage.create(TWO)
    old = set(stage.cluster.names(WORKLOAD))
    state = stage.update(declared(replicas=1), state)
    stage.update(TWO, state)
    stage.stands(TWO)
    assert 1 == len(old & set(stage.cluster.names(WORKLOAD)))


def test_scaling_and_rolling_are_one_plan() -> None:
    stage = Stage()
    state = stage.create(declared(replicas=3))
    stage.cluster.store.compact()
    edit = declared(replicas=2, size=2)
    stage.update(edit, state)
    stage.stands(edit)
    made = [
        name_of(revision.obj)
        for revision in stage.cluster.store.history
        if revision.kind == POD and revision.change is Change.ADDED
    ]
    assert 4 == len(made)
    assert [] == [name for name in made if "-r2-" in name]


def test_half_the_cards_and_twice_the_replicas_fit_where_the_old_ones_stood() -> None:
    stage = Stage(gpus=4)
    state = stage.create(TWO)
    edit = declared(replicas=4, resources={"count": 1})
    stage.update(edit, state)
    stage.stands(edit)
    assert 4 == stage.cluster.usage("h200")[GPU]


# --- nothing to do ---


@pytest.mark.parametrize("replicas", [1, 8])
@pytest.mark.parametrize("strangers", [0, 40])
def test_the_same_declaration_again_writes_nothing_and_reads_four_times(
    replicas: int, strangers: int
) -> None:
    declaration = declared(replicas=replicas)
    stage = Stage(gpus=64)
    state = stage.create(declaration)
    other = declared(deployment="other", replicas=max(strangers // 2, 1))
    if strangers:
        stage.create(other)
    before = stage.cluster.requests.copy()
    again = stage.update(declaration, state)
    made = stage.cluster.requests - before
    assert state == again
    assert 0 == stage.counted.total()
    of_process = {("get", "namespaces"), ("discover", "workloads")}
    assert {
        ("get", "configmaps"): 1,
        ("get", "localqueues"): 1,
        ("list", "pods"): 1,
        ("list", "services"): 1,
    } == {call: count for call, count in made.items() if call not in of_process}
    assert 3 >= sum(count for call, count in made.items() if call in of_process)


def test_a_look_reads_three_times_and_writes_nothing() -> None:
    stage = Stage()
    state = stage.create(TWO)
    before = stage.cluster.requests.copy()
    reading = stage.read(TWO, state)
    made = stage.cluster.requests - before
    assert reading.is_converged
    assert not reading.is_gone
    del made["get", "namespaces"]
    assert {("get", "configmaps"): 1, ("list", "pods"): 1, ("list", "services"): 1} == made
