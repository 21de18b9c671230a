"""Diff, create, read, update and delete, called as the SDK calls them, on a cluster in memory."""

from collections.abc import Callable
from typing import Any

import pytest
from pulumi.output import UNKNOWN

from gpustack_deploy.engine.cluster import CONFIG_MAP, NAMESPACE, POD, SERVICE, WORKLOAD
from gpustack_deploy.model.errors import (
    GpustackDeployError,
    RefusedChange,
    Unreachable,
    WrongCluster,
)
from pulumi_gpustack import _bridge, _connection
from pulumi_gpustack._outputs import StateUnreadable
from pulumi_gpustack.role_provider import RoleProvider
from tests.fakes import MemoryCluster
from tests.pulumi.declarations import pair, role

pytestmark = pytest.mark.check

Properties = dict[str, Any]
Check = Callable[..., Properties]


class Stack:
    """One role's inputs and outputs, as the engine keeps them between calls."""

    def __init__(
        self, provider: RoleProvider, checked: Check, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._provider = provider
        self._checked = checked
        self.id = ""
        self.inputs: Properties = {}
        self.outputs: Properties = {}
        monkeypatch.setattr(_bridge.Call, "properties", lambda _call, name: self._sent(name))

    def _sent(self, name: str) -> Properties | None:
        held = {"old_inputs": self.inputs, "inputs": self.inputs, "old_outputs": self.outputs}
        return held[name] or None

    def up(self, news: Properties) -> None:
        inputs = self._checked(news, self.inputs)
        if not self.outputs:
            made = self._provider.create(inputs)
            self.id, outs = made.id, made.outs
        else:
            outs = self._provider.update(self.id, self.outputs, inputs).outs
        self.inputs, self.outputs = inputs, {**(outs or {}), "__provider": "pickled"}

    def diff(self, news: Properties) -> bool | None:
        inputs = self._checked(news, self.inputs)
        found = self._provider.diff(self.id, self.outputs, inputs)
        assert [] == found.replaces
        assert found.delete_before_replace
        return found.changes


@pytest.fixture
def stack(
    cluster: MemoryCluster,
    provider: RoleProvider,
    checked: Check,
    monkeypatch: pytest.MonkeyPatch,
) -> Stack:
    return Stack(provider, checked, monkeypatch)


def uids(cluster: MemoryCluster) -> dict[str, str]:
    return {name: cluster.uid(POD, "ml", name) for name in cluster.names(POD)}


class TestCreate:
    def test_the_outputs_say_what_stands_and_where(
        self, cluster: MemoryCluster, stack: Stack
    ) -> None:
        stack.up(role())
        assert "ml/chat/server" == stack.id
        outputs = stack.outputs
        assert 2 == outputs["replicas"]
        assert outputs["isFinished"]
        assert stack.inputs["fingerprint"] == outputs["fingerprint"]
        assert cluster.uid(CONFIG_MAP, "ml", "chat-server") == outputs["recordUid"]
        assert cluster.uid(NAMESPACE, "", "ml") == outputs["namespaceUid"]
        assert {"chat-server-r0-m0", "chat-server-r1-m0"} == set(uids(cluster))

    def test_it_does_not_join_a_deployment_with_another_set(
        self, cluster: MemoryCluster, provider: RoleProvider, stack: Stack
    ) -> None:
        stack.up(role())
        before = uids(cluster)
        with pytest.raises(RefusedChange, match="chat-server"):
            provider.create(
                role(role="serving", roleKinds={"serving": "Server"}, frontRole="serving")
            )
        assert before == uids(cluster)

    def test_half_made_it_says_what_was_achieved_and_no_more(
        self, cluster: MemoryCluster, provider: RoleProvider, checked: Check, kept: "Kept"
    ) -> None:
        kept.end_when(lambda: bool(cluster.names(POD)))
        with pytest.raises(GpustackDeployError):
            provider.create(checked(role()))
        [(id_, outputs, reason)] = kept.partial
        assert "ml/chat/server" == id_
        assert not outputs["isFinished"]
        assert 0 == outputs["replicas"]
        assert "" == outputs["fingerprint"]
        assert "pickled" == outputs["__provider"]
        assert cluster.uid(CONFIG_MAP, "ml", "chat-server") == outputs["recordUid"]
        assert "run `pulumi up` again" in reason


class TestDiff:
    def test_nothing_to_do(self, cluster: MemoryCluster, stack: Stack) -> None:
        stack.up(role())
        assert False is stack.diff(role())

    def test_an_edit_is_described_by_its_inputs(self, cluster: MemoryCluster, stack: Stack) -> None:
        stack.up(role())
        assert None is stack.diff(role(replicas=3.0))
        assert None is stack.diff(role(resources={"count": 4.0}))
        assert None is stack.diff(role(service={"annotations": {"a": "b"}}))

    def test_how_a_rollout_is_paced_changes_nothing(
        self, cluster: MemoryCluster, stack: Stack
    ) -> None:
        stack.up(role())
        assert False is stack.diff(role(rollout={"gate": "Admitted", "deadlineSeconds": 60.0}))

    def test_a_default_written_out_changes_nothing(
        self, cluster: MemoryCluster, stack: Stack
    ) -> None:
        stack.up(role())
        assert False is stack.diff(role(size=1.0, kind="Server"))

    def test_drift_shows_although_the_inputs_are_the_same(
        self, cluster: MemoryCluster, stack: Stack
    ) -> None:
        stack.up(role())
        service = cluster.store.get(SERVICE, "ml", "chat-server")
        cluster.store.delete(SERVICE, "ml", "chat-server", uid=service["metadata"]["uid"])
        assert True is stack.diff(role())

    def test_an_unfinished_rollout_shows_although_the_inputs_are_the_same(
        self, cluster: MemoryCluster, stack: Stack
    ) -> None:
        stack.up(role())
        stack.outputs["isFinished"] = False
        assert True is stack.diff(role())

    def test_a_finished_rollout_that_state_does_not_know_shows(
        self, cluster: MemoryCluster, stack: Stack
    ) -> None:
        stack.up(role())
        before = (stack.inputs, stack.outputs)
        stack.up(role(replicas=3.0))
        stack.inputs, stack.outputs = before
        assert None is stack.diff(role(replicas=3.0))

    def test_unknown_values_are_an_edit(self, cluster: MemoryCluster, stack: Stack) -> None:
        stack.up(role())
        assert None is stack.diff(role(image=UNKNOWN))

    def test_without_old_inputs_every_difference_is_a_change(
        self, cluster: MemoryCluster, stack: Stack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stack.up(role())
        monkeypatch.setattr(_bridge.Call, "properties", lambda _call, _name: None)
        assert False is stack.diff(role())
        assert True is stack.diff(role(replicas=3.0))

    def test_out_of_reach_the_inputs_decide(
        self, cluster: MemoryCluster, stack: Stack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stack.up(role())

        async def unreachable(_kubeconfig: str, _context: str) -> MemoryCluster:
            raise Unreachable("no answer")

        monkeypatch.setattr(_connection, "open_connection", unreachable)
        assert False is stack.diff(role())
        assert False is stack.diff(role(rollout={"gate": "Admitted"}))
        assert None is stack.diff(role(replicas=3.0))
        assert None is stack.diff(role(service={"annotations": {"a": "b"}}))

    def test_another_cluster_is_an_error(self, cluster: MemoryCluster, stack: Stack) -> None:
        stack.up(role())
        outputs = {**stack.outputs, "clusterUid": "elsewhere"}
        with pytest.raises(WrongCluster):
            RoleProvider().diff(stack.id, outputs, stack.inputs)

    def test_no_change_costs_three_reads_and_two_for_the_process(
        self, cluster: MemoryCluster, provider: RoleProvider, checked: Check
    ) -> None:
        made = []
        for name in ("prefill", "decode"):
            inputs = checked(pair(name))
            outs = {**(provider.create(inputs).outs or {}), "__provider": "pickled"}
            made.append((inputs, outs))
        _connection.forget()
        cluster.requests.clear()
        for inputs, outs in made:
            checked(inputs, inputs)
            assert False is provider.diff("", outs, inputs).changes
        of_the_process = cluster.requests.pop(("get", "namespaces"))
        assert of_the_process <= 2
        want = {("get", "configmaps"): 2, ("list", "pods"): 2, ("list", "services"): 2}
        assert want == dict(cluster.requests)


class TestUpdate:
    def test_every_replica_is_replaced_and_the_identities_stay(
        self, cluster: MemoryCluster, stack: Stack
    ) -> None:
        stack.up(role())
        pods, outputs = uids(cluster), stack.outputs
        stack.up(role(resources={"count": 4.0}))
        after = uids(cluster)
        assert set(pods) == set(after)
        assert not set(pods.values()) & set(after.values())
        for key in ("recordUid", "claim", "clusterUid", "namespaceUid", "serviceName"):
            assert outputs[key] == stack.outputs[key]
        assert outputs["fingerprint"] != stack.outputs["fingerprint"]
        assert False is stack.diff(role(resources={"count": 4.0}))

    def test_cut_short_it_keeps_what_was_achieved_before(
        self, cluster: MemoryCluster, stack: Stack, kept: "Kept"
    ) -> None:
        stack.up(role())
        before, pods = stack.outputs, uids(cluster)
        kept.end_when(lambda: pods != uids(cluster))
        with pytest.raises(GpustackDeployError):
            stack.up(role(resources={"count": 4.0}, replicas=3.0))
        [(_, outputs, _)] = kept.partial
        assert before["fingerprint"] == outputs["fingerprint"]
        assert 2 == outputs["replicas"]
        assert not outputs["isFinished"]
        assert before["claim"] == outputs["claim"]

    def test_state_of_a_newer_version_is_not_guessed_at(
        self, cluster: MemoryCluster, stack: Stack
    ) -> None:
        stack.up(role())
        stack.outputs["schemaVersion"] = 2.0
        with pytest.raises(StateUnreadable, match="upgrade gpustack-deploy"):
            RoleProvider().update(stack.id, stack.outputs, stack.inputs)


class TestRead:
    def test_what_stands_reads_as_it_was_written(
        self, cluster: MemoryCluster, provider: RoleProvider, stack: Stack
    ) -> None:
        stack.up(role())
        found = provider.read(stack.id, stack.outputs)
        assert stack.id == found.id
        assert {**stack.outputs, "__provider": None} == {**(found.outs or {}), "__provider": None}
        assert {**stack.inputs, "__provider": None} == {**(found.inputs or {}), "__provider": None}

    def test_drift_reads_as_unfinished(
        self, cluster: MemoryCluster, provider: RoleProvider, stack: Stack
    ) -> None:
        stack.up(role())
        service = cluster.store.get(SERVICE, "ml", "chat-server")
        cluster.store.delete(SERVICE, "ml", "chat-server", uid=service["metadata"]["uid"])
        outs = provider.read(stack.id, stack.outputs).outs or {}
        assert not outs["isFinished"]
        assert stack.outputs["fingerprint"] == outs["fingerprint"]

    def test_a_role_that_is_gone_has_no_id(
        self, cluster: MemoryCluster, provider: RoleProvider, stack: Stack
    ) -> None:
        stack.up(role())
        provider.delete(stack.id, stack.outputs)
        found = provider.read(stack.id, stack.outputs)
        assert None is found.id
        assert {} == found.outs

    def test_in_another_cluster_it_is_never_gone(
        self, cluster: MemoryCluster, provider: RoleProvider, stack: Stack
    ) -> None:
        stack.up(role())
        with pytest.raises(WrongCluster):
            provider.read(stack.id, {**stack.outputs, "clusterUid": "elsewhere"})

    def test_without_inputs_the_outputs_stay(
        self,
        cluster: MemoryCluster,
        provider: RoleProvider,
        stack: Stack,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        stack.up(role())
        monkeypatch.setattr(_bridge.Call, "properties", lambda _call, _name: None)
        assert stack.outputs == provider.read(stack.id, stack.outputs).outs


class TestDelete:
    def test_nothing_is_left(
        self, cluster: MemoryCluster, provider: RoleProvider, stack: Stack
    ) -> None:
        stack.up(role())
        provider.delete(stack.id, stack.outputs)
        assert [[], [], [], []] == [
            cluster.names(kind) for kind in (POD, WORKLOAD, SERVICE, CONFIG_MAP)
        ]

    def test_an_earlier_claim_removes_nothing_and_says_so(
        self,
        cluster: MemoryCluster,
        provider: RoleProvider,
        stack: Stack,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        stack.up(role())
        before = uids(cluster)
        provider.delete(stack.id, {**stack.outputs, "claim": "earlier"})
        assert before == uids(cluster)
        assert "earlier claim" in capsys.readouterr().err

    def test_in_another_cluster_nothing_is_deleted(
        self, cluster: MemoryCluster, provider: RoleProvider, stack: Stack
    ) -> None:
        stack.up(role())
        before = uids(cluster)
        with pytest.raises(WrongCluster):
            provider.delete(stack.id, {**stack.outputs, "clusterUid": "elsewhere"})
        assert before == uids(cluster)


class Kept:
    """What calls asked the engine to keep although they failed."""

    def __init__(self) -> None:
        self.partial: list[tuple[str, Properties, str]] = []
        self.awaiting: list[str] = []
        self.is_ended: Callable[[], bool] = lambda: False

    def end_when(self, is_ended: Callable[[], bool]) -> None:
        """Let calls end as if nobody waited for them, from that moment on."""
        self.is_ended = is_ended


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    seen = Kept()
    monkeypatch.setattr(
        _bridge.Call,
        "keep_partial",
        lambda _call, id_, outputs, reason: seen.partial.append((id_, outputs, reason)),
    )
    monkeypatch.setattr(_bridge.Call, "is_ending", lambda _call: seen.is_ended())
    monkeypatch.setattr(
        _bridge.Call, "keep_awaiting", lambda _call, reason: seen.awaiting.append(reason)
    )
    return seen
