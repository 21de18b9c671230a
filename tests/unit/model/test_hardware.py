from typing import Any

import pytest

from gpustack_deploy.model.hardware import Fabric, Geometry, GeometryMode, render_resources
from tests.declarations import ASCEND, CPU, H200, PARTITIONED, SLICED, role

pytestmark = pytest.mark.check

HOST = {"cpu", "memory", "ephemeral-storage"}


@pytest.mark.parametrize(
    ("instance_type", "resources", "want"),
    [
        (H200, None, Geometry(GeometryMode.WHOLE, 1)),
        (H200, {}, Geometry(GeometryMode.WHOLE, 1)),
        (H200, {"count": 8}, Geometry(GeometryMode.WHOLE, 8)),
        (H200, {"accelerator": 4}, Geometry(GeometryMode.WHOLE, 4)),
        (H200, {"count": 0}, Geometry(GeometryMode.NONE)),
        (SLICED, {"memoryPercentage": 0, "coresPercentage": 0}, Geometry(GeometryMode.WHOLE, 1)),
        (SLICED, {"memoryPercentage": 50}, Geometry(GeometryMode.SLICE, 1, 50, 50)),
        (SLICED, {"coresPercentage": 40}, Geometry(GeometryMode.SLICE, 1, 40, 40)),
        (
            SLICED,
            {"memoryPercentage": 50, "coresPercentage": 20},
            Geometry(GeometryMode.SLICE, 1, 50, 20),
        ),
        (PARTITIONED, {"profile": "1g.18gb"}, Geometry(GeometryMode.PARTITION, 1, 0, 0, "1g.18gb")),
        (CPU, None, Geometry(GeometryMode.NONE)),
    ],
)
def test_a_request_means_one_geometry(
    instance_type: Any, resources: dict[str, Any] | None, want: Geometry
) -> None:
    assert want == role(instanceType=instance_type, resources=resources).geometry


@pytest.mark.parametrize(
    ("instance_type", "resources", "limits", "devices"),
    [
        (H200, {"count": 1}, ("16", "192Gi", "15Gi"), {"nvidia.com/gpu": "1"}),
        (H200, {"count": 8}, ("128", "1536Gi", "15Gi"), {"nvidia.com/gpu": "8"}),
        (H200, {"count": 0}, ("16", "192Gi", "15Gi"), {}),
        (
            SLICED,
            {"memoryPercentage": 50, "coresPercentage": 20},
            ("8", "96Gi", "15Gi"),
            {
                "nvidia.com/gpu.sliced": "1",
                "nvidia.com/gpu.sliced.memory-percentage": "50",
                "nvidia.com/gpu.sliced.cores-percentage": "20",
                "nvidia.com/gpu.sliced.units": "800k",
            },
        ),
        (
            SLICED,
            {"memoryPercentage": 40},
            ("7", "76Gi", "15Gi"),
            {
                "nvidia.com/gpu.sliced": "1",
                "nvidia.com/gpu.sliced.memory-percentage": "40",
                "nvidia.com/gpu.sliced.cores-percentage": "40",
                "nvidia.com/gpu.sliced.units": "640k",
            },
        ),
        (
            PARTITIONED,
            {"profile": "3g.71gb"},
            ("9", "96Gi", "15Gi"),
            {
                "nvidia.com/gpu.partitioned": "1",
                "nvidia.com/gpu.partitioned.mig-3g.71gb": "1",
                "nvidia.com/gpu.partitioned.units": "805673",
            },
        ),
        (ASCEND, {"count": 2}, ("32", "384Gi", "15Gi"), {"huawei.com/npu": "2"}),
        (CPU, None, ("1", "4Gi", "15Gi"), {}),
        ({**CPU, "localStorage": "10.5Gi"}, None, ("1", "4Gi", "10Gi"), {}),
        ({**H200, "unitMemory": "500Mi"}, None, ("16", "0", "15Gi"), {"nvidia.com/gpu": "1"}),
    ],
)
def test_limits_follow_the_share_of_a_card_and_devices_are_one_family(
    instance_type: Any,
    resources: dict[str, Any] | None,
    limits: tuple[str, str, str],
    devices: dict[str, str],
) -> None:
    declared = role(instanceType=instance_type, resources=resources)
    got = render_resources(
        declared.geometry, instance_type=declared.instance_type, fabric=Fabric.RDMA
    )
    assert limits == (got.limits["cpu"], got.limits["memory"], got.limits["ephemeral-storage"])
    for amounts in (got.limits, got.requests):
        assert devices == {key: amounts[key] for key in amounts if key not in HOST}


@pytest.mark.parametrize(
    ("instance_type", "want"),
    [
        (H200, ("1600m", "24Gi", "1920Mi")),
        ({**H200, "overcommit": False}, ("16", "192Gi", "15Gi")),
        (CPU, ("800m", "512Mi", "1920Mi")),
        ({**CPU, "overcommit": False}, ("1", "4Gi", "15Gi")),
    ],
)
def test_requests_are_scaled_down_under_overcommit_only(
    instance_type: Any, want: tuple[str, str, str]
) -> None:
    declared = role(instanceType=instance_type)
    got = render_resources(
        declared.geometry, instance_type=declared.instance_type, fabric=Fabric.RDMA
    ).requests
    assert want == (got["cpu"], got["memory"], got["ephemeral-storage"])


@pytest.mark.parametrize(
    ("interfaces", "fabric", "want"),
    [
        (0, Fabric.RDMA, {}),
        (1, Fabric.RDMA, {"device.gpustack.ai/rdma.shared": "1"}),
        (8, Fabric.RDMA, {"device.gpustack.ai/rdma": "8"}),
        (1, Fabric.EFA, {"vpc.amazonaws.com/efa": "1"}),
        (4, Fabric.EFA, {"vpc.amazonaws.com/efa": "4"}),
    ],
)
def test_interfaces_have_one_key_by_fabric_and_count(
    interfaces: int, fabric: Fabric, want: dict[str, str]
) -> None:
    declared = role(instanceType=CPU, size=2, interface=interfaces)
    got = render_resources(
        declared.geometry, instance_type=declared.instance_type, fabric=fabric
    ).limits
    assert want == {key: got[key] for key in got if key not in HOST}


def test_a_partition_that_is_not_offered_is_sized_as_nothing() -> None:
    declared = role(instanceType=PARTITIONED, resources={"profile": "1g.18gb"})
    elsewhere = role(instanceType=H200).instance_type
    got = render_resources(declared.geometry, instance_type=elsewhere, fabric=Fabric.RDMA)
    assert "0" == got.limits["cpu"]
