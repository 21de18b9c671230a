"""What Kueue, the kubelet and the garbage collector do to serving groups, on both adapters.

Where this suite and the fake disagree with the sandbox, the fake is wrong.
"""

import asyncio

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP, NAMESPACE, POD, WORKLOAD
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import Refused, Unreachable
from gpustack_deploy.model.raw import Json
from tests.contract.conftest import IGNORES_GRACE, NEVER_READY, Run, Subject
from tests.fakes.objects import (
    annotations_of,
    condition_status,
    conditions_of,
    gates_of,
    is_terminating,
    labels_of,
    meta,
    phase_of,
    uid_of,
)
from tests.fakes.pods import config_map, pod

ONE_GPU = {"nvidia.com/gpu": "1"}


def is_admitted(workload: Json) -> bool:
    return condition_status(workload, "Admitted") == "True"


def is_evicted(workload: Json) -> bool:
    return condition_status(workload, "Admitted") == "False"


def is_ready(member: Json) -> bool:
    return condition_status(member, "Ready") == "True"


def message_of(workload: Json, kind: str = "QuotaReserved") -> str:
    return next(
        (str(each["message"]) for each in conditions_of(workload) if each["type"] == kind), ""
    )


async def make_group(subject: Subject, group: str, *names: str) -> Json:
    """Create the members and return the Workload once every member is ready."""
    for name in names:
        await subject.create(
            POD, pod(name, group=group, total=len(names), queue="l4", requests=ONE_GPU)
        )
    for name in names:
        await subject.until(POD, name, is_ready)
    return await subject.until(WORKLOAD, group, is_admitted)


def test_a_dry_run_shows_what_kueue_adds(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        shown = await subject.cluster.create(
            POD, subject.namespace, pod("a", group="g", requests=ONE_GPU), dry_run=True
        )
        assert identity.KUEUE_ADMISSION_GATE in gates_of(shown)
        assert identity.KUEUE_MANAGED in meta(shown)["finalizers"]
        assert labels_of(shown)[identity.KUEUE_MANAGED] == "true"
        assert annotations_of(shown)[identity.KUEUE_ROLE_HASH] == "server"
        assert await subject.is_gone(POD, "a")

    run(scenario)


def test_a_namespace_that_kueue_does_not_manage_gets_nothing(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        namespace = await subject.add_plain_namespace()
        shown = await subject.cluster.create(
            POD, namespace, pod("a", group="g", requests=ONE_GPU), dry_run=True
        )
        assert identity.KUEUE_ADMISSION_GATE not in gates_of(shown)
        assert identity.KUEUE_MANAGED not in labels_of(shown)

    run(scenario)


def test_a_group_without_a_total_is_refused(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        body = pod("a", group="g", requests=ONE_GPU)
        del body["metadata"]["annotations"][identity.KUEUE_GROUP_TOTAL]
        with pytest.raises(Refused, match=r"both the 'kueue\.x-k8s\.io/pod-group-total-"):
            await subject.create(POD, body)

    run(scenario)


def test_a_whole_group_is_composed_admitted_and_released(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        await subject.create(POD, pod("a", group="g", total=2, queue="l4", requests=ONE_GPU))
        await asyncio.sleep(1)
        assert await subject.is_gone(WORKLOAD, "g")
        half = await subject.get(POD, "a")
        assert identity.KUEUE_ADMISSION_GATE in gates_of(half)
        assert message_of(half, "PodScheduled")
        await subject.create(POD, pod("b", group="g", total=2, queue="l4", requests=ONE_GPU))
        workload = await subject.until(WORKLOAD, "g", is_admitted)
        members = [await subject.until(POD, name, is_ready) for name in ("a", "b")]
        owners = meta(workload)["ownerReferences"]
        assert {owner["uid"] for owner in owners} == {uid_of(member) for member in members}
        assert not any(owner.get("controller") for owner in owners)
        (pod_set,) = workload["spec"]["podSets"]
        assert (pod_set["name"], pod_set["count"]) == ("server", 2)
        assert workload["spec"]["queueName"] == "l4"
        admission = workload["status"]["admission"]
        assert admission["clusterQueue"] == "l4"
        (assignment,) = admission["podSetAssignments"]
        assert assignment["flavors"]["nvidia.com/gpu"] == "l4"
        assert assignment["resourceUsage"]["nvidia.com/gpu"] == "2"
        for member in members:
            assert gates_of(member) == []
            assert annotations_of(member)[identity.KUEUE_WORKLOAD] == "g"
            assert labels_of(member)["kueue.x-k8s.io/podset"] == "server"
            assert phase_of(member) == "Running"

    run(scenario)


def test_members_deleted_alone_stay_until_their_workload_goes(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        await make_group(subject, "g", "a", "b")
        for name in ("a", "b"):
            await subject.delete(POD, name)
        for name in ("a", "b"):
            await subject.until(POD, name, lambda member: phase_of(member) == "Succeeded")
        await asyncio.sleep(3)
        for name in ("a", "b"):
            assert is_terminating(await subject.get(POD, name))
        assert is_admitted(await subject.get(WORKLOAD, "g"))
        await subject.delete(WORKLOAD, "g")
        for name in ("a", "b"):
            await subject.until_gone(POD, name)
        await subject.until_gone(WORKLOAD, "g")

    run(scenario)


def test_a_workload_deleted_alone_takes_its_members_along(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        await make_group(subject, "g", "a", "b")
        await subject.delete(WORKLOAD, "g")
        for name in ("a", "b"):
            await subject.until_gone(POD, name)
        await subject.until_gone(WORKLOAD, "g")

    run(scenario)


def test_one_member_deleted_leaves_its_sibling_and_a_note(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        before = await make_group(subject, "g", "a", "b")
        body = await subject.get(POD, "b")
        await subject.cluster.delete(
            POD, subject.namespace, "a", uid=await subject.uid(POD, "a"), grace_period_seconds=1
        )
        await subject.until(POD, "a", lambda member: phase_of(member) in {"Succeeded", "Failed"})
        await asyncio.sleep(2)
        assert not is_terminating(await subject.get(POD, "b"))
        assert uid_of(await subject.get(POD, "b")) == uid_of(body)
        after = await subject.get(WORKLOAD, "g")
        assert uid_of(after) == uid_of(before)
        assert is_admitted(after)

    run(scenario)


def test_a_gated_member_leaves_at_once_unless_its_group_has_a_workload(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        await subject.create(POD, pod("a", group="g1", total=2, queue="l4", requests=ONE_GPU))
        await subject.delete(POD, "a")
        await subject.until_gone(POD, "a")
        many = {"nvidia.com/gpu": "1000"}
        await subject.create(POD, pod("b", group="g2", queue="l4", requests=many))
        await subject.until(WORKLOAD, "g2", lambda found: bool(message_of(found)))
        await subject.delete(POD, "b")
        await asyncio.sleep(2)
        assert is_terminating(await subject.get(POD, "b"))
        await subject.delete(WORKLOAD, "g2")
        await subject.until_gone(POD, "b")
        await subject.until_gone(WORKLOAD, "g2")

    run(scenario)


def test_a_member_too_many_is_deleted_and_the_group_stays(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        workload = await make_group(subject, "g", "a")
        await subject.create(POD, pod("late", group="g", queue="l4", requests=ONE_GPU))
        await subject.until_gone(POD, "late")
        assert not is_terminating(await subject.get(POD, "a"))
        assert uid_of(await subject.get(WORKLOAD, "g")) == uid_of(workload)

    run(scenario)


def test_a_group_waits_and_its_workload_says_for_what(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        await subject.create(POD, pod("a", group="g1", queue="none", requests=ONE_GPU))
        lost = await subject.until(WORKLOAD, "g1", lambda found: bool(message_of(found)))
        assert message_of(lost) == "LocalQueue none doesn't exist"
        many = {"nvidia.com/gpu": "1000"}
        await subject.create(POD, pod("b", group="g2", queue="l4", requests=many))
        short = await subject.until(WORKLOAD, "g2", lambda found: bool(message_of(found)))
        assert message_of(short).startswith(
            "couldn't assign flavors to pod set server: insufficient quota for nvidia.com/gpu in"
            " flavor l4, previously considered podsets requests (0) + current podset request"
            " (1k) > maximum capacity ("
        ) or "insufficient quota for nvidia.com/gpu in flavor l4" in message_of(short)
        assert condition_status(short, "QuotaReserved") == "False"

    run(scenario)


def test_a_deactivated_workload_loses_its_members_and_its_reservation(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        workload = await make_group(subject, "g", "a")
        await subject.cluster.patch(
            WORKLOAD, subject.namespace, "g", {"spec": {"active": False}}, uid=uid_of(workload)
        )
        evicted = await subject.until(
            WORKLOAD, "g", lambda found: condition_status(found, "QuotaReserved") == "False"
        )
        assert condition_status(evicted, "Evicted") == "True"
        reason = next(
            each["reason"] for each in conditions_of(evicted) if each["type"] == "Evicted"
        )
        assert reason == "Deactivated"
        assert not is_admitted(evicted)
        assert "admission" not in evicted["status"]
        member = await subject.get(POD, "a")
        assert is_terminating(member)
        assert identity.KUEUE_MANAGED in meta(member)["finalizers"]
        await subject.delete(WORKLOAD, "g")
        await subject.until_gone(POD, "a")

    run(scenario)


def test_a_running_member_leaves_within_its_grace_and_without_a_node_at_once(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        body = pod("a", requests=ONE_GPU)
        body["metadata"]["annotations"] = dict(NEVER_READY)
        await subject.create(POD, body)
        await subject.until(POD, "a", lambda member: phase_of(member) == "Running")
        assert not is_ready(await subject.get(POD, "a"))
        await subject.delete(POD, "a")
        leaving = await subject.get(POD, "a")
        assert meta(leaving)["deletionGracePeriodSeconds"] == 30
        await subject.until_gone(POD, "a")

    run(scenario)


def test_a_member_that_outlives_its_grace_is_composed_again_after_every_delete(run: Run) -> None:
    """The remnant of a lost node: the same name, a new Workload, and quota held once more."""

    async def scenario(subject: Subject) -> None:
        body = pod("a", group="g", queue="l4", requests=ONE_GPU, grace_seconds=1)
        body["metadata"]["annotations"] |= IGNORES_GRACE
        await subject.create(POD, body)
        workload = await subject.until(WORKLOAD, "g", is_admitted)
        await subject.until(POD, "a", is_ready)
        await subject.delete(POD, "a")
        await asyncio.sleep(4)
        assert phase_of(await subject.get(POD, "a")) == "Running"
        seen = {uid_of(workload)}
        for turn in range(2):
            await subject.delete(WORKLOAD, "g")
            await subject.cluster.patch(
                POD,
                subject.namespace,
                "a",
                {"metadata": {"annotations": {"example.com/turn": str(turn)}}},
                uid=await subject.uid(POD, "a"),
            )
            remnant = await subject.until(
                WORKLOAD, "g", lambda found: uid_of(found) not in seen and is_admitted(found)
            )
            (owner,) = meta(remnant)["ownerReferences"]
            assert owner["uid"] == await subject.uid(POD, "a")
            seen.add(uid_of(remnant))
        # Nothing holds the member any more, and with its last owner the remnant goes by itself.
        await subject.cluster.delete(
            POD, subject.namespace, "a", uid=await subject.uid(POD, "a"), grace_period_seconds=0
        )
        await subject.until_gone(POD, "a")
        await subject.until_gone(WORKLOAD, "g")

    run(scenario)


def test_an_activated_workload_is_admitted_again_though_its_member_leaves(run: Run) -> None:
    """Kueue recreates no Pod: what it admits again describes a member that is on its way out."""

    async def scenario(subject: Subject) -> None:
        workload = await make_group(subject, "g", "a")
        for is_active in (False, True):
            await subject.cluster.patch(
                WORKLOAD,
                subject.namespace,
                "g",
                {"spec": {"active": is_active}},
                uid=uid_of(workload),
            )
            is_met = is_admitted if is_active else is_evicted
            await subject.until(WORKLOAD, "g", is_met)
        assert is_terminating(await subject.get(POD, "a"))
        await subject.delete(WORKLOAD, "g")
        await subject.until_gone(POD, "a")

    run(scenario)


def test_a_silent_kueue_makes_a_create_fail_as_unknown(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        await subject.silence_kueue(True)
        try:
            for is_dry in (True, False):
                with pytest.raises(Unreachable, match="failed calling webhook"):
                    await subject.cluster.create(
                        POD,
                        subject.namespace,
                        pod("a", group="g", queue="l4", requests=ONE_GPU),
                        dry_run=is_dry,
                    )
        finally:
            await subject.silence_kueue(False)
        assert await subject.is_gone(POD, "a")
        await make_group(subject, "g", "a")

    run(scenario)


def test_a_terminating_namespace_waits_for_members_until_their_workload_goes(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        await make_group(subject, "g", "a")
        await subject.create(CONFIG_MAP, config_map("record"))
        namespace = await subject.cluster.get(NAMESPACE, "", subject.namespace)
        await subject.cluster.delete(NAMESPACE, "", subject.namespace, uid=uid_of(namespace))
        await subject.until(POD, "a", is_terminating)
        await asyncio.sleep(3)
        assert not await subject.is_gone(POD, "a")
        # Pods are deleted first, and what else is there waits for them.
        assert not await subject.is_gone(WORKLOAD, "g")
        assert not await subject.is_gone(CONFIG_MAP, "record")
        with pytest.raises(Refused, match="because it is being terminated"):
            await subject.create(CONFIG_MAP, config_map("late"))
        await subject.delete(WORKLOAD, "g")
        await subject.until_gone(POD, "a")
        await subject.until_gone(CONFIG_MAP, "record", timeout_seconds=60)

    run(scenario)
