"""What stands in the state of stacks that exist: none of it may change (D19)."""

import base64
import pickletools
from typing import Any

import dill  # type: ignore[import-untyped]
import pytest
from pulumi.dynamic.dynamic import serialize_provider

import pulumi_gpustack as gpustack
from gpustack_deploy.model.state import STATE_SCHEMA_VERSION, RoleState
from pulumi_gpustack import _outputs
from pulumi_gpustack.role_provider import RoleProvider
from tests.fakes import MemoryCluster
from tests.pulumi.declarations import role

pytestmark = pytest.mark.check

PICKLED = "gASVNQAAAAAAAACMHXB1bHVtaV9ncHVzdGFjay5yb2xlX3Byb3ZpZGVylIwMUm9sZVByb3ZpZGVylJOUKYGULg=="


def test_the_provider_is_pickled_by_reference() -> None:
    assert PICKLED == serialize_provider(RoleProvider())
    words = [str(argument) for _, argument, _ in pickletools.genops(base64.b64decode(PICKLED))]
    assert "pulumi_gpustack.role_provider" in words
    assert "RoleProvider" in words


def test_stored_providers_are_read() -> None:
    loaded = dill.loads(base64.b64decode(PICKLED))  # noqa: S301 - our own bytes
    assert isinstance(loaded, RoleProvider)


def test_the_provider_holds_nothing() -> None:
    provider = RoleProvider()
    assert {} == vars(provider)
    assert not provider.serialize_as_secret_always


def test_the_type_tokens() -> None:
    assert (
        "dynamic/gpustack:ModelDeploymentRole" == gpustack.ModelDeploymentRole._resource_type_name
    )


def test_the_keys_of_the_outputs(cluster: MemoryCluster, provider: RoleProvider) -> None:
    inputs = provider.check({}, role()).inputs
    outputs = provider.create({**inputs, "__provider": "pickled"}).outs or {}
    want = {
        "claim",
        "clusterCa",
        "clusterUid",
        "deployment",
        "endpoint",
        "fingerprint",
        "frontRole",
        "isFinished",
        "namespace",
        "namespaceUid",
        "podSelector",
        "recordUid",
        "replicas",
        "role",
        "schemaVersion",
        "serviceName",
        "servicePort",
        "size",
    }
    assert want == set(outputs)
    assert 1 == outputs["schemaVersion"] == STATE_SCHEMA_VERSION


def test_state_of_the_first_version_is_read() -> None:
    stored: dict[str, Any] = {
        "schemaVersion": 1.0,
        "recordUid": "r",
        "claim": "c",
        "clusterUid": "u",
        "clusterCa": "a",
        "namespaceUid": "n",
        "fingerprint": "f",
        "replicas": 2.0,
        "size": 1.0,
        "isFinished": True,
    }
    want = RoleState("r", "c", "u", "a", "n", fingerprint="f", replicas=2, size=1, is_finished=True)
    assert want == _outputs.state_of(stored)


@pytest.mark.parametrize("version", [0.0, 2.0, 1.5, "1", None])
def test_state_of_another_version_is_refused(version: object) -> None:
    with pytest.raises(_outputs.StateUnreadable, match="schemaVersion"):
        _outputs.state_of({"schemaVersion": version})
