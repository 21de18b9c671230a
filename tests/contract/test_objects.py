"""What the port promises about objects: versions, UIDs, preconditions, dry runs, watches."""

import asyncio
from typing import Any

import pytest

from gpustack_deploy.engine.cluster import (
    CONFIG_MAP,
    POD,
    SERVICE,
    WORKLOAD,
    Change,
    Event,
    Kind,
)
from gpustack_deploy.model.errors import Conflict, Expired, NotFound, Refused
from gpustack_deploy.model.raw import Json
from tests.contract.conftest import Run, Subject
from tests.fakes.objects import copy_of, is_terminating, labels_of, meta
from tests.fakes.pods import config_map, controller_reference, pod, service


def version(obj: Json) -> str:
    return str(meta(obj)["resourceVersion"])


def changed(obj: Json, **data: str) -> dict[str, Any]:
    wanted: dict[str, Any] = copy_of(obj)
    wanted["data"] = data
    return wanted


def test_what_was_created_is_returned_as_stored_and_read_back(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        made = await subject.create(CONFIG_MAP, config_map("a", {"x": "1"}))
        assert meta(made)["uid"]
        assert meta(made)["namespace"] == subject.namespace
        assert made["data"] == {"x": "1"}
        found = await subject.get(CONFIG_MAP, "a")
        assert (meta(found)["uid"], version(found)) == (meta(made)["uid"], version(made))

    run(scenario)


def test_an_absent_object_is_not_found_by_name(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        for kind in (CONFIG_MAP, POD, WORKLOAD):
            with pytest.raises(NotFound, match='"none" not found'):
                await subject.get(kind, "none")
        with pytest.raises(NotFound, match='configmaps "none" not found'):
            await subject.cluster.delete(CONFIG_MAP, subject.namespace, "none", uid="u")
        with pytest.raises(NotFound):
            await subject.cluster.patch(CONFIG_MAP, subject.namespace, "none", {}, uid="u")
        with pytest.raises(NotFound):
            await subject.cluster.replace(
                CONFIG_MAP,
                subject.namespace,
                "none",
                {"metadata": {"name": "none", "resourceVersion": "1"}},
            )

    run(scenario)


def test_a_name_is_made_once(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        made = await subject.create(CONFIG_MAP, config_map("a"))
        for is_dry in (False, True):
            with pytest.raises(Conflict, match="already exists") as caught:
                await subject.cluster.create(
                    CONFIG_MAP, subject.namespace, config_map("a"), dry_run=is_dry
                )
            assert caught.value.reason == "AlreadyExists"
        assert await subject.uid(CONFIG_MAP, "a") == meta(made)["uid"]

    run(scenario)


def test_a_namespace_that_does_not_exist_is_named(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        with pytest.raises(NotFound, match='namespaces "no-such-namespace" not found'):
            await subject.cluster.create(CONFIG_MAP, "no-such-namespace", config_map("a"))
        with pytest.raises(NotFound, match='configmaps "a" not found'):
            await subject.cluster.get(CONFIG_MAP, "no-such-namespace", "a")
        assert (await subject.cluster.list(CONFIG_MAP, "no-such-namespace")).items == ()

    run(scenario)


def test_an_object_without_a_name_is_refused(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        with pytest.raises(Refused):
            await subject.create(CONFIG_MAP, {"metadata": {}})

    run(scenario)


def test_a_list_selects_by_label_or_by_name(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
            await subject.create(CONFIG_MAP, config_map(name, labels={"app": app, "t": "1"}))

        async def names(**selection: str) -> list[str]:
            listing = await subject.cluster.list(CONFIG_MAP, subject.namespace, **selection)
            assert listing.resource_version
            return [meta(item)["name"] for item in listing.items]

        assert await names(labels="app=x,t=1") == ["a", "b"]
        assert await names(labels="app=z") == []
        assert await names(name="c") == ["c"]
        assert await names(name="d") == []

    run(scenario)


def test_a_replace_moves_the_version_and_an_old_version_is_a_conflict(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        made = await subject.create(CONFIG_MAP, config_map("a", {"x": "1"}))
        moved = await subject.cluster.replace(
            CONFIG_MAP, subject.namespace, "a", changed(made, x="2")
        )
        assert version(moved) != version(made)
        assert meta(moved)["uid"] == meta(made)["uid"]
        with pytest.raises(Conflict, match="the object has been modified") as caught:
            await subject.cluster.replace(CONFIG_MAP, subject.namespace, "a", changed(made, x="3"))
        assert caught.value.reason == "Conflict"
        assert (await subject.get(CONFIG_MAP, "a"))["data"] == {"x": "2"}

    run(scenario)


def test_a_replace_of_another_object_of_that_name_is_a_conflict(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        made = await subject.create(CONFIG_MAP, config_map("a", {"x": "1"}))
        await subject.delete(CONFIG_MAP, "a")
        await subject.create(CONFIG_MAP, config_map("a", {"x": "2"}))
        wanted = changed(made, x="3")
        with pytest.raises(Conflict):
            await subject.cluster.replace(CONFIG_MAP, subject.namespace, "a", wanted)
        del wanted["metadata"]["resourceVersion"]
        with pytest.raises(Conflict):
            await subject.cluster.replace(CONFIG_MAP, subject.namespace, "a", wanted)
        assert (await subject.get(CONFIG_MAP, "a"))["data"] == {"x": "2"}

    run(scenario)


def test_a_patch_merges_removes_and_is_bound_to_its_object(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        made = await subject.create(
            CONFIG_MAP, config_map("a", {"x": "1"}, labels={"keep": "1", "drop": "1"})
        )
        uid = str(meta(made)["uid"])
        patched = await subject.cluster.patch(
            CONFIG_MAP,
            subject.namespace,
            "a",
            {"metadata": {"labels": {"drop": None, "new": "1"}}},
            uid=uid,
        )
        assert labels_of(patched) == {"keep": "1", "new": "1"}
        assert patched["data"] == {"x": "1"}
        with pytest.raises(Conflict):
            await subject.cluster.patch(
                CONFIG_MAP,
                subject.namespace,
                "a",
                {"data": {"x": "9"}},
                uid="00000000-0000-0000-0000-000000000000",
            )
        with pytest.raises(Conflict):
            await subject.cluster.patch(
                CONFIG_MAP,
                subject.namespace,
                "a",
                {"metadata": {"resourceVersion": version(made)}, "data": {"x": "9"}},
                uid=uid,
            )
        assert (await subject.get(CONFIG_MAP, "a"))["data"] == {"x": "1"}

    run(scenario)


def test_a_delete_removes_exactly_its_object(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        made = await subject.create(CONFIG_MAP, config_map("a"))
        with pytest.raises(Conflict, match="UID"):
            await subject.cluster.delete(
                CONFIG_MAP, subject.namespace, "a", uid="00000000-0000-0000-0000-000000000000"
            )
        assert await subject.uid(CONFIG_MAP, "a") == meta(made)["uid"]
        await subject.delete(CONFIG_MAP, "a")
        assert await subject.is_gone(CONFIG_MAP, "a")

    run(scenario)


def test_a_dry_run_answers_and_stores_nothing(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        shown = await subject.cluster.create(
            CONFIG_MAP, subject.namespace, config_map("a", {"x": "1"}), dry_run=True
        )
        assert shown["data"] == {"x": "1"}
        assert await subject.is_gone(CONFIG_MAP, "a")

    run(scenario)


def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_off(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        body = config_map("a")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        made = await subject.create(CONFIG_MAP, body)
        await subject.delete(CONFIG_MAP, "a")
        await subject.delete(CONFIG_MAP, "a")
        assert is_terminating(await subject.get(CONFIG_MAP, "a"))
        with pytest.raises(Conflict):
            await subject.create(CONFIG_MAP, config_map("a"))
        await subject.cluster.patch(
            CONFIG_MAP,
            subject.namespace,
            "a",
            {"metadata": {"finalizers": None}},
            uid=str(meta(made)["uid"]),
        )
        assert await subject.is_gone(CONFIG_MAP, "a")

    run(scenario)


def test_what_an_object_controls_goes_after_it(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        record = await subject.create(CONFIG_MAP, config_map("record"))
        owned = service("owned")
        owned["metadata"]["ownerReferences"] = [
            controller_reference({"apiVersion": "v1", "kind": "ConfigMap", **record})
        ]
        await subject.create(SERVICE, owned)
        await subject.create(SERVICE, service("free"))
        await subject.delete(CONFIG_MAP, "record")
        await subject.until_gone(SERVICE, "owned")
        assert not await subject.is_gone(SERVICE, "free")

    run(scenario)


def test_a_service_gets_an_address_that_a_patch_keeps(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        made = await subject.create(SERVICE, service("a"))
        address = made["spec"]["clusterIP"]
        assert address.count(".") == 3
        assert made["spec"]["ports"][0]["protocol"] == "TCP"
        assert made["spec"]["ports"][0]["targetPort"] == 80
        patched = await subject.cluster.patch(
            SERVICE,
            subject.namespace,
            "a",
            {"spec": {"selector": {"app": None, "other": "x"}}},
            uid=str(meta(made)["uid"]),
        )
        assert patched["spec"]["selector"] == {"other": "x"}
        assert patched["spec"]["clusterIP"] == address
        headless = service("b")
        headless["spec"] |= {"clusterIP": "None", "publishNotReadyAddresses": True}
        assert (await subject.create(SERVICE, headless))["spec"]["clusterIP"] == "None"

    run(scenario)


async def collect(
    subject: Subject, count: int, *, kind: Kind = CONFIG_MAP, **scope: Any
) -> list[tuple[Change, str]]:
    """Return the first so many changes of a watch, bookmarks left out."""
    seen: list[tuple[Change, str]] = []
    stream = subject.cluster.watch(kind, subject.namespace, timeout_seconds=20, **scope)
    async for event in stream:
        if event.change is not Change.BOOKMARK:
            seen.append((event.change, str(meta(event.obj)["name"])))
        if len(seen) == count:
            break
    await stream.aclose()  # type: ignore[attr-defined]
    return seen


def test_a_watch_tells_what_happened_after_its_version(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        await subject.create(CONFIG_MAP, config_map("before", labels={"app": "x"}))
        listing = await subject.cluster.list(CONFIG_MAP, subject.namespace, labels="app=x")
        watching = asyncio.create_task(
            collect(subject, 5, labels="app=x", resource_version=listing.resource_version)
        )
        made = await subject.create(CONFIG_MAP, config_map("a", labels={"app": "x"}))
        await subject.create(CONFIG_MAP, config_map("other", labels={"app": "y"}))
        await subject.cluster.replace(CONFIG_MAP, subject.namespace, "a", changed(made, x="1"))
        await subject.delete(CONFIG_MAP, "a")
        # A changed label leaves the selection, and another one enters it.
        for name, app in (("before", "y"), ("other", "x")):
            await subject.cluster.patch(
                CONFIG_MAP,
                subject.namespace,
                name,
                {"metadata": {"labels": {"app": app}}},
                uid=await subject.uid(CONFIG_MAP, name),
            )
        assert await watching == [
            (Change.ADDED, "a"),
            (Change.MODIFIED, "a"),
            (Change.DELETED, "a"),
            (Change.DELETED, "before"),
            (Change.ADDED, "other"),
        ]

    run(scenario)


def test_a_watch_of_one_name_sees_nothing_else(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        listing = await subject.cluster.list(CONFIG_MAP, subject.namespace, name="b")
        await subject.create(CONFIG_MAP, config_map("a"))
        await subject.create(CONFIG_MAP, config_map("b"))
        seen = await collect(subject, 1, name="b", resource_version=listing.resource_version)
        assert seen == [(Change.ADDED, "b")]

    run(scenario)


def test_a_watch_ends_by_itself_after_its_time(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        listing = await subject.cluster.list(CONFIG_MAP, subject.namespace, labels="app=none")
        events: list[Event] = [
            event
            async for event in subject.cluster.watch(
                CONFIG_MAP,
                subject.namespace,
                labels="app=none",
                resource_version=listing.resource_version,
                timeout_seconds=1,
            )
        ]
        assert {event.change for event in events} <= {Change.BOOKMARK}

    run(scenario)


def test_a_watch_from_a_forgotten_version_has_expired(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        # The kind of a custom resource is served from later than the cluster's first version on.
        forgotten = await subject.forget_history()
        with pytest.raises(Expired):
            await collect(subject, 1, kind=WORKLOAD, resource_version=forgotten)

    run(scenario)


def test_the_cluster_says_what_it_serves_and_who_it_is(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        assert await subject.cluster.serves(WORKLOAD)
        assert await subject.cluster.serves(POD)
        marks = await subject.cluster.marks()
        assert marks.uid
        assert marks.ca
        assert await subject.cluster.marks() == marks

    run(scenario)


def test_a_policy_refuses_a_pod_in_its_own_words(run: Run) -> None:
    async def scenario(subject: Subject) -> None:
        await subject.enforce_pod_security()
        for is_dry in (True, False):
            with pytest.raises(Refused, match=r'pods "a" is forbidden: violates PodSecurity'):
                await subject.cluster.create(
                    POD, subject.namespace, pod("a", group="g"), dry_run=is_dry
                )

    run(scenario)
