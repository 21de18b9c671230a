from fractions import Fraction

import pytest

from gpustack_deploy.model.instance_type import InstanceType
from tests.declarations import ASCEND, CPU, H200, PARTITIONED

pytestmark = pytest.mark.check


def test_defaults_describe_an_overcommitted_linux_pool_of_unpartitioned_cards() -> None:
    offer = InstanceType.model_validate(H200)
    assert ("linux", "amd64", True) == (offer.os, offer.arch, offer.overcommit)
    assert (False, False) == (offer.sliceable, offer.is_partitioned)


@pytest.mark.parametrize("name", ["localQueue", "local_queue", "entrance"])
def test_the_local_queue_goes_by_three_names(name: str) -> None:
    raw = {key: value for key, value in H200.items() if key != "localQueue"}
    assert "pool" == InstanceType.model_validate({**raw, name: "pool"}).local_queue


@pytest.mark.parametrize(
    ("raw", "manufacturer", "backend", "is_acceleratable"),
    [
        (H200, "nvidia", "cuda", True),
        ({**H200, "backend": "cuda12"}, "nvidia", "cuda12", True),
        (ASCEND, "ascend", "cann", True),
        ({**H200, "acceleratorGroup": "cambricon-mlu590"}, "cambricon", "", True),
        ({**H200, "acceleratorGroup": "acme-x"}, "acme", "", True),
        (CPU, "", "", False),
    ],
)
def test_the_group_names_the_manufacturer_and_its_runner_backend(
    raw: dict[str, object], manufacturer: str, backend: str, is_acceleratable: bool
) -> None:
    offer = InstanceType.model_validate(raw)
    got = (offer.manufacturer, offer.runner_backend, offer.is_acceleratable)
    assert (manufacturer, backend, is_acceleratable) == got


@pytest.mark.parametrize(
    ("raw", "profile", "want"),
    [
        (PARTITIONED, "3g.71gb", Fraction(71, 141)),
        (PARTITIONED, "7g.141gb", None),
        ({**PARTITIONED, "acceleratorMemory": None}, "3g.71gb", None),
    ],
)
def test_a_partition_takes_its_exact_share_of_the_cards_memory(
    raw: dict[str, object], profile: str, want: Fraction | None
) -> None:
    assert want == InstanceType.model_validate(raw).profile_share(profile)
