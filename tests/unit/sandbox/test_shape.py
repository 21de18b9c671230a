import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from gpustack_deploy.sandbox.errors import InvalidShape
from gpustack_deploy.sandbox.objects import cluster_queue_object, node_objects
from gpustack_deploy.sandbox.shape import SCHEMA_FILE, Pool, load_shape, multiplied, shape_from

pytestmark = pytest.mark.check


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(json.loads(SCHEMA_FILE.read_text()))


def test_the_default_shape_has_the_promised_nodes_and_gpus() -> None:
    want = {"h200": (4, "8"), "a100": (3, "8"), "l4": (4, "1"), "cpu": (2, None)}
    got = {
        pool.name: (pool.nodes, pool.devices.get("nvidia.com/gpu")) for pool in load_shape().pools
    }
    assert want == got
    assert len(list(node_objects(load_shape()))) == 13


def test_a_quota_is_the_sum_of_the_nodes_unless_it_is_declared() -> None:
    pool = Pool("p", 3, cpu="4", memory="2Gi", devices={"nvidia.com/gpu": "8"})
    assert {"nvidia.com/gpu": "24", "cpu": "12", "memory": "6Gi"}.items() <= pool.quotas(()).items()
    declared = Pool("p", 3, cpu="4", quota={"cpu": "5"})
    assert declared.quotas(())["cpu"] == "5"


def test_unmetered_resources_are_on_the_nodes_and_not_in_the_quota() -> None:
    pool = Pool("p", 1, devices={"device.gpustack.ai/rdma": "8"})
    queue = cluster_queue_object(pool, ("device.gpustack.ai/",))
    assert "device.gpustack.ai/rdma" in pool.capacity()
    assert "device.gpustack.ai/rdma" not in json.dumps(queue)


def test_a_file_may_use_numbers_for_quantities() -> None:
    shape = shape_from({"pools": [{"name": "p", "nodes": 1, "cpu": 8, "devices": {"x.io/y": 2}}]})
    assert ("8", {"x.io/y": "2"}) == (shape.pools[0].cpu, shape.pools[0].devices)


@pytest.mark.parametrize(
    ("declared", "place"),
    [
        (None, "$"),
        ({}, "$"),
        ({"pools": []}, "$.pools"),
        ({"pools": [{"name": "p"}]}, "$.pools[0]"),
        ({"pools": [{"name": "p", "nodes": -1}]}, "$.pools[0].nodes"),
        ({"pools": [{"name": "P_", "nodes": 1}]}, "$.pools[0].name"),
        ({"pools": [{"name": "p", "nodes": 1, "memory": "2 TB"}]}, "$.pools[0].memory"),
        ({"pools": [{"name": "p", "nodes": 1, "gpu": 8}]}, "$.pools[0]"),
        ({"pools": [{"name": "p", "nodes": 1}], "nodes": 3}, "$"),
        ({"pools": [{"name": "p", "nodes": 1}, {"name": "p", "nodes": 2}]}, "$.pools"),
    ],
)
def test_a_wrong_file_is_one_sentence_with_the_place(declared: object, place: str) -> None:
    with pytest.raises(InvalidShape) as caught:
        shape_from(declared, source="nodes.yaml")
    message = str(caught.value)
    assert message.startswith(f"nodes.yaml: {place}: ")
    assert "\n" not in message


def test_an_absent_file_and_one_that_is_not_yaml_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidShape, match=r"absent\.yaml: No such file"):
        load_shape(tmp_path / "absent.yaml")
    (tmp_path / "bad.yaml").write_text("pools: [")
    with pytest.raises(InvalidShape, match=r"bad\.yaml is not YAML") as caught:
        load_shape(tmp_path / "bad.yaml")
    assert "\n" not in str(caught.value)


def test_only_whole_quantities_are_multiplied() -> None:
    assert multiplied("512Gi", 4) == "2048Gi"
    with pytest.raises(InvalidShape, match=r"1\.5"):
        multiplied("1.5", 2)
