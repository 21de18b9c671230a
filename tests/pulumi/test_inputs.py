"""Args classes and their dict forms: one translation, every argument documented."""

import ast
import dataclasses
from pathlib import Path

import pulumi
import pytest

import pulumi_gpustack as gpustack
from gpustack_deploy.model import hardware, instance_type, pod_fields
from gpustack_deploy.model import role as role_model
from gpustack_deploy.model.declared import Declared
from pulumi_gpustack import inputs
from pulumi_gpustack._hardware_args import AnyResources
from pulumi_gpustack._wire import Args, camel, to_wire

pytestmark = pytest.mark.check

ARGS = sorted(name for name in inputs.__all__ if not name.endswith("Dict"))
DICTS = sorted(name for name in inputs.__all__ if name.endswith("Dict"))


def test_a_role_becomes_the_camel_case_declaration() -> None:
    written = gpustack.Role(
        name="server",
        instance_type=gpustack.InstanceType(
            name="h200", local_queue="h200", unit_cpu=16, unit_memory="192Gi"
        ),
        resources=gpustack.Slice(memory_percentage=50),
        env=[
            gpustack.Env("HF_TOKEN", secret_ref=("hf", "token")),
            {"name": "HOST_IP", "field_ref": "status.hostIP"},
        ],
        ports=[gpustack.Port(8000)],
        volumes=[
            gpustack.Volume(
                mount_path="/models", persistent_volume_claim=gpustack.ClaimSource("models")
            )
        ],
        pod={"node_selector": {"some_key": "x"}, "tolerations": [{"toleration_seconds": 5}]},
        command=("serve", "--port=8000"),
        topology=gpustack.Topology(required_level="cloud.example.com/rack"),
    )
    want = {
        "name": "server",
        "instanceType": {
            "name": "h200",
            "localQueue": "h200",
            "unitCpu": 16,
            "unitMemory": "192Gi",
        },
        "resources": {"memoryPercentage": 50},
        "env": [
            {"name": "HF_TOKEN", "secretRef": {"name": "hf", "key": "token"}},
            {"name": "HOST_IP", "fieldRef": "status.hostIP"},
        ],
        "ports": [{"port": 8000}],
        "volumes": [
            {"mountPath": "/models", "persistentVolumeClaim": {"claimName": "models"}},
        ],
        "pod": {"nodeSelector": {"some_key": "x"}, "tolerations": [{"tolerationSeconds": 5}]},
        "command": ["serve", "--port=8000"],
        "topology": {"requiredLevel": "cloud.example.com/rack"},
    }
    assert want == to_wire(written, gpustack.Role)


def test_the_dict_form_and_file_keys_mean_the_same() -> None:
    snake = {"name": "a", "instance_type": "h200", "extra_args": ["--x"], "shm_size": "1Gi"}
    files = {"name": "a", "instanceType": "h200", "extraArgs": ["--x"], "shmSize": "1Gi"}
    assert files == to_wire(snake, gpustack.Role)
    assert files == to_wire(files, gpustack.Role)


def test_an_unknown_key_is_passed_on_for_check_to_refuse() -> None:
    assert {"name": "a", "no_such": 1} == to_wire({"name": "a", "no_such": 1}, gpustack.Role)


def test_an_output_is_passed_on_as_it_is() -> None:
    image: pulumi.Output[str] = object.__new__(pulumi.Output)
    assert image is to_wire({"name": "a", "image": image}, gpustack.Role)["image"]
    pair = to_wire(gpustack.Env("A", secret_ref=(image, "key")), gpustack.Env)["secretRef"]
    assert image is pair["name"]


@pytest.mark.parametrize("name", DICTS)
def test_a_dict_form_has_the_keys_of_its_class(name: str) -> None:
    form = getattr(inputs, name)
    block = AnyResources if name == "ResourcesDict" else getattr(inputs, name.removesuffix("Dict"))
    assert {field.name for field in dataclasses.fields(block)} == set(form.__annotations__)


@pytest.mark.parametrize(
    ("block", "model"),
    [
        (gpustack.Role, role_model.RoleSpec),
        (gpustack.Engine, role_model.Engine),
        (gpustack.KvTransfer, role_model.KvTransfer),
        (gpustack.Rollout, role_model.Rollout),
        (gpustack.InstanceType, instance_type.InstanceType),
        (gpustack.PartitionProfile, instance_type.PartitionProfile),
        (AnyResources, hardware.Resources),
        (gpustack.Env, pod_fields.EnvVar),
        (gpustack.Port, pod_fields.Port),
        (gpustack.Volume, pod_fields.Volume),
        (gpustack.Readiness, pod_fields.Readiness),
        (gpustack.Toleration, pod_fields.Toleration),
        (gpustack.Pod, pod_fields.PodBlock),
        (gpustack.Service, pod_fields.ServiceBlock),
        (gpustack.Topology, pod_fields.Topology),
    ],
)
def test_a_class_has_the_fields_of_its_model(block: type[Args], model: type[Declared]) -> None:
    written = {camel(field.name) for field in dataclasses.fields(block)}  # type: ignore[arg-type]
    assert {field.alias for field in model.model_fields.values()} == written


def test_every_argument_has_a_sentence() -> None:
    missing = []
    for path in [*Path(inputs.__file__).parent.glob("*_args.py"), Path(inputs.__file__)]:
        for block in ast.parse(path.read_text()).body:
            if isinstance(block, ast.ClassDef) and not block.name.endswith("Dict"):
                missing += [f"{block.name}.{name}" for name in _undocumented(block)]
    assert [] == missing


def _undocumented(block: ast.ClassDef) -> list[str]:
    names = []
    for position, statement in enumerate(block.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            following = block.body[position + 1 : position + 2]
            is_documented = following and isinstance(following[0], ast.Expr)
            if not is_documented and statement.target.id != "blocks":
                names.append(statement.target.id)
    return names


def test_what_users_write_is_exported() -> None:
    assert set(inputs.__all__) < set(gpustack.__all__)
    assert {"ModelDeployment", "ModelDeploymentRole"} < set(gpustack.__all__)
    assert ARGS
