"""`check`: rules with paths, identity, the set of roles, computed keys, unknown values."""

from collections.abc import Callable
from typing import Any

import pytest
from pulumi.output import UNKNOWN, Unknown

from gpustack_deploy.engine.cluster import CONFIG_MAP
from gpustack_deploy.model.errors import Unreachable
from pulumi_gpustack import _bridge, _connection
from pulumi_gpustack.role_provider import RoleProvider
from tests.fakes import MemoryCluster
from tests.pulumi.declarations import pair, role

pytestmark = pytest.mark.check

Properties = dict[str, Any]
Check = Callable[..., Properties]
Refusals = Callable[..., list[tuple[str, str]]]


def test_numbers_are_whole_and_computed_keys_are_added(
    cluster: MemoryCluster, checked: Check
) -> None:
    found = checked(role())
    assert 2 == found["replicas"]
    assert isinstance(found["replicas"], int)
    assert 16 == found["instanceType"]["unitCpu"]
    assert "chat-server" == found["serviceName"]
    assert 8000 == found["servicePort"]
    assert "http://chat.ml.svc:8000" == found["endpoint"]
    assert "server" == found["podSelector"]["app.kubernetes.io/component"]
    assert len(found["fingerprint"]) > 8


def test_a_role_that_is_not_the_front_has_the_endpoint_of_its_own_service(
    cluster: MemoryCluster, checked: Check
) -> None:
    assert "http://chat.ml.svc:8000" == checked(pair("prefill"))["endpoint"]
    assert "http://chat-decode.ml.svc:8000" == checked(pair("decode"))["endpoint"]


def test_checking_what_was_checked_changes_nothing(cluster: MemoryCluster, checked: Check) -> None:
    once = checked(role())
    assert once == checked(once, once)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"replicas": 0.0}, "replicas"),
        ({"sizes": 2.0}, "sizes"),
        ({"kind": "Serving"}, "kind"),
        ({"resources": {"count": "two"}}, "resources.count"),
        ({"engine": {"name": "TGI"}}, "engine.name"),
        ({"rollout": {"lostNode": "Force"}}, "rollout.lostNode"),
        ({"image": None, "engine": {"name": "vLLM"}}, "image"),
    ],
)
def test_a_bad_declaration_is_refused_with_its_path(
    cluster: MemoryCluster, refusals: Refusals, changes: Properties, path: str
) -> None:
    found = refusals(role(**changes))
    assert path in [where for where, _ in found]
    assert all(reason for _, reason in found)


def test_a_rule_waits_for_a_value_that_is_not_known_yet(
    cluster: MemoryCluster, checked: Check
) -> None:
    unknown_image = checked(role(image=UNKNOWN, env=[{"name": "A", "value": UNKNOWN}]))
    assert isinstance(unknown_image["fingerprint"], Unknown)
    assert isinstance(unknown_image["image"], Unknown)
    assert "http://chat.ml.svc:8000" == unknown_image["endpoint"]
    assert "chat-server" == unknown_image["serviceName"]

    unknown_replicas = checked(role(replicas=UNKNOWN))
    assert isinstance(unknown_replicas["fingerprint"], str)

    unknown_namespace = checked(role(namespace=UNKNOWN))
    assert isinstance(unknown_namespace["endpoint"], Unknown)
    assert "chat-server" == unknown_namespace["serviceName"]

    unknown_count = checked(role(resources={"count": UNKNOWN}))
    assert 8000 == unknown_count["servicePort"]


def test_known_fields_are_judged_although_others_are_unknown(
    cluster: MemoryCluster, refusals: Refusals
) -> None:
    assert ["replicas"] == [path for path, _ in refusals(role(image=UNKNOWN, replicas=0.0))]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"deployment": "talk"}, "deployment"),
        ({"namespace": "other"}, "namespace"),
        ({"role": "serving", "roleKinds": {"serving": "Server"}}, "role"),
        ({"model": "Qwen/Qwen3-8B"}, "model"),
        ({"engine": {"name": "SGLang", "version": "0.5"}}, "engine.name"),
        ({"roleKinds": {"server": "Server", "extra": "Server"}}, "roles"),
    ],
)
def test_an_edit_of_identity_is_refused_with_old_and_new(
    cluster: MemoryCluster, checked: Check, refusals: Refusals, changes: Properties, path: str
) -> None:
    old = checked(role())
    found = dict(refusals(role(**changes), old))
    assert path in found
    assert "nothing was changed" in found[path]


def test_a_role_does_not_change_its_kind(
    cluster: MemoryCluster, checked: Check, refusals: Refusals
) -> None:
    old = checked(pair("decode"))
    news = pair("decode", kind="Prefill", roleKinds={"prefill": "Decode", "decode": "Prefill"})
    assert ["kind"] == [path for path, _ in refusals(news, old)]


def test_what_is_not_identity_may_be_edited(cluster: MemoryCluster, checked: Check) -> None:
    old = checked(role())
    edited = checked(role(size=2.0, engine={"name": "vLLM", "version": "0.12.0"}), old)
    assert old["fingerprint"] != edited["fingerprint"]


def test_the_front_role_stays_when_the_list_is_reordered(
    cluster: MemoryCluster, checked: Check
) -> None:
    old = checked(pair("decode"))
    assert "prefill" == checked(pair("decode", frontRole="decode"), old)["frontRole"]


def test_another_front_role_by_name_is_refused(
    cluster: MemoryCluster, checked: Check, refusals: Refusals
) -> None:
    old = checked(pair("decode"))
    news = pair("decode", frontRole="decode", front="decode")
    assert ["front"] == [path for path, _ in refusals(news, old)]


class TestNewRole:
    """A role without old inputs asks the cluster which deployment it joins."""

    def test_it_joins_a_deployment_with_the_same_set(
        self, cluster: MemoryCluster, provider: RoleProvider, checked: Check
    ) -> None:
        provider.create(checked(pair("prefill")))
        assert "prefill" == checked(pair("decode", frontRole="decode"))["frontRole"]

    @pytest.mark.parametrize(
        "news",
        [
            role(role="serving", roleKinds={"serving": "Server"}, frontRole="serving"),
            role(role="extra", roleKinds={"server": "Server", "extra": "Server"}),
        ],
        ids=["renamed", "added"],
    )
    def test_another_set_is_refused(
        self,
        cluster: MemoryCluster,
        provider: RoleProvider,
        checked: Check,
        refusals: Refusals,
        news: Properties,
    ) -> None:
        provider.create(checked(role()))
        [(path, reason)] = refusals(news)
        assert "roles" == path
        assert "chat-server" in reason

    def test_a_record_that_cannot_be_read_is_refused(
        self, cluster: MemoryCluster, provider: RoleProvider, checked: Check, refusals: Refusals
    ) -> None:
        provider.create(checked(role()))
        record = cluster.store.get(CONFIG_MAP, "ml", "chat-server")
        cluster.store.update(CONFIG_MAP, {**record, "data": {"record": "{"}})
        assert "chat-server" in refusals(role())[0][1]

    def test_an_unreachable_cluster_is_a_note_and_asked_once(
        self,
        cluster: MemoryCluster,
        checked: Check,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        asked = []

        async def unreachable(_kubeconfig: str, _context: str) -> MemoryCluster:
            asked.append(1)
            raise Unreachable("https://192.0.2.1 does not answer")

        monkeypatch.setattr(_connection, "open_connection", unreachable)
        checked(pair("prefill"))
        checked(pair("decode"))
        assert [1] == asked
        assert 1 == capsys.readouterr().err.count("192.0.2.1 does not answer")

    def test_a_deployment_of_unknown_name_is_not_asked_for(
        self, cluster: MemoryCluster, checked: Check
    ) -> None:
        checked(role(namespace=UNKNOWN))
        assert 0 == cluster.requests["list", "configmaps"]


def test_a_connection_to_another_cluster_is_refused(
    cluster: MemoryCluster,
    provider: RoleProvider,
    checked: Check,
    refusals: Refusals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = checked(role())
    outputs = {**(provider.create(inputs).outs or {}), "clusterUid": "elsewhere"}
    monkeypatch.setattr(
        _bridge.Call,
        "properties",
        lambda _call, name: outputs if name == "old_outputs" else None,
    )
    [(path, reason)] = refusals(role(), inputs)
    assert "" == path
    assert "elsewhere" in reason


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"command": ["serve"]}, "declare `readiness`"),
        ({"extraArgs": ["--host", "10.0.0.1"]}, "cannot ask this role's listener"),
        ({"ports": [{"port": 53, "protocol": "UDP"}]}, "cannot ask this role's listener"),
        ({"command": ["serve"], "image": UNKNOWN}, "declare `readiness`"),
    ],
    ids=["take-over", "one address", "no TCP", "not all known"],
)
def test_ready_without_readiness_is_warned_about(
    cluster: MemoryCluster,
    checked: Check,
    capsys: pytest.CaptureFixture[str],
    changes: Properties,
    says: str,
) -> None:
    checked(role(**changes))
    assert 1 == capsys.readouterr().err.count(says)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"command": ["serve"], "rollout": {"gate": "Admitted"}},
        {"command": ["serve"], "readiness": {"exec": {"command": ["true"]}}},
        {"extraArgs": ["--host", "10.0.0.1"], "rollout": {"gate": "Admitted"}},
        {"extraArgs": ["--host", UNKNOWN]},
        {"command": UNKNOWN},
    ],
    ids=["managed", "take-over", "probed", "one address", "unknown argument", "unknown command"],
)
def test_nothing_is_warned_about_while_ready_means_more_or_is_not_known(
    cluster: MemoryCluster,
    checked: Check,
    capsys: pytest.CaptureFixture[str],
    changes: Properties,
) -> None:
    checked(role(**changes))
    assert "" == capsys.readouterr().err
