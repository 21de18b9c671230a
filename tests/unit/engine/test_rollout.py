"""The loop at every moment of a run: what routes to whom, what stands beside what, what it says."""

from collections.abc import Iterator

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP, POD, SERVICE, WORKLOAD, Change, Kind
from gpustack_deploy.model import identity
from gpustack_deploy.model.raw import Json
from gpustack_deploy.model.role import RoleDeclaration
from tests.declarations import role
from tests.engine.driver import Stage, standing
from tests.engine.guarded_cluster import GPU
from tests.fakes.objects import Object, annotations_of, labels_of, name_of

pytestmark = pytest.mark.check

TWO, PAIRS = role(replicas=2), role(replicas=2, size=2)
SHAPES = [
    pytest.param(TWO, PAIRS, id="size up"),
    pytest.param(PAIRS, TWO, id="size down"),
    pytest.param(PAIRS, role(replicas=1, size=2), id="shrink"),
    pytest.param(role(replicas=3, size=2), role(replicas=2), id="size down and shrink"),
]


def moments(stage: Stage) -> Iterator[dict[Kind, dict[str, Object]]]:
    """Pods and Services by name, after each change of either since the beginning."""
    seen: dict[Kind, dict[str, Object]] = {POD: {}, SERVICE: {}}
    for revision in stage.cluster.store.history:
        if revision.kind in seen:
            if revision.change is Change.DELETED:
                seen[revision.kind].pop(name_of(revision.obj))
            else:
                seen[revision.kind][name_of(revision.obj)] = revision.obj
            yield seen


@pytest.mark.parametrize(("before", "after"), SHAPES)
def test_at_no_moment_is_a_follower_selected_or_a_pair_without_its_peer_service(
    before: RoleDeclaration, after: RoleDeclaration
) -> None:
    stage, state = standing(before)
    stage.update(after, state)
    stage.assert_stands(after)
    for seen in moments(stage):
        selectors = [
            seen[SERVICE][name]["spec"]["selector"]
            for name in ("chat", "chat-server")
            if name in seen[SERVICE]
        ]
        for name, pod in seen[POD].items():
            labels = labels_of(pod)
            if labels[identity.LABEL_MEMBER_INDEX] != "0":
                assert [] == [each for each in selectors if each.items() <= labels.items()], name
            if annotations_of(pod)[identity.KUEUE_GROUP_TOTAL] != "1":
                assert f"chat-server-r{labels[identity.LABEL_ORDINAL]}" in seen[SERVICE]


def test_the_record_comes_first_and_services_before_members() -> None:
    stage = Stage()
    stage.create(PAIRS)
    made = [
        revision.kind.name
        for revision in stage.cluster.store.history
        if revision.change is Change.ADDED and revision.kind in (CONFIG_MAP, SERVICE, POD)
    ]
    assert ["ConfigMap", *["Service"] * 4, *["Pod"] * 4] == made


def test_each_phase_of_a_replacement_is_one_line_with_its_cause() -> None:
    stage, state = standing(TWO)
    stage.update(PAIRS, state)
    phases = [line for line in stage.lines if not line.endswith(")")]
    assert [
        f"server r{ordinal}: {phase}"
        for ordinal in (1, 0)
        for phase in (
            "replacing: built from an earlier declaration",
            "creating anew: the ordinal is vacant",
            "members stand: every member of the replacement stands",
            "replaced: a fresh admission describes its members and the gate is passed",
        )
    ] == phases
    assert len(stage.lines) == len(set(stage.lines))


def test_an_ordinal_that_returns_has_a_fresh_group() -> None:
    stage, state = standing(TWO)
    old = set(stage.cluster.names(WORKLOAD))
    state = stage.update(role(replicas=1), state)
    stage.update(TWO, state)
    stage.assert_stands(TWO)
    assert 1 == len(old & set(stage.cluster.names(WORKLOAD)))


def test_half_the_cards_and_twice_the_replicas_fit_where_the_old_ones_stood() -> None:
    stage, state = standing(role(replicas=2, resources={"count": 2}), gpus=4)
    edit = role(replicas=4, resources={"count": 1})
    stage.update(edit, state)
    stage.assert_stands(edit)
    assert 4 == stage.cluster.usage("h200")[GPU]


def test_what_happens_after_the_lock_was_given_up_is_the_next_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, state = standing(role())
    cluster, edit = stage.cluster, role(size=2)
    replace = cluster.replace

    async def lose_a_member_once_released(
        kind: Kind, namespace: str, name: str, body: Json
    ) -> Json:
        answer = await replace(kind, namespace, name, body)
        if stage.record().lock.holder == "":
            uid = stage.uids()["chat-server-r0-m0"]
            cluster.store.delete(POD, "ml", "chat-server-r0-m0", uid=uid)
        return answer

    monkeypatch.setattr(cluster, "replace", lose_a_member_once_released)
    state = stage.update(edit, state)
    assert "" == stage.record().lock.holder
    assert not stage.read(edit, state).is_converged
    monkeypatch.undo()
    stage.update(edit, state)
    stage.assert_stands(edit)
