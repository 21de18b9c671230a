"""The fields of a role, as a deployment's entry and as the declaration of one role resource."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from gpustack_deploy.model.declared import (
    WHOLE_NUMBER,
    Declared,
    Name,
    ObjectName,
    SizeQuantity,
    wrong,
)
from gpustack_deploy.model.desired import Gate, LostNode
from gpustack_deploy.model.hardware import Geometry, Resources, resolve_geometry
from gpustack_deploy.model.instance_type import InstanceType
from gpustack_deploy.model.pod_fields import (
    EnvVar,
    PodBlock,
    Port,
    PullPolicy,
    Readiness,
    ServiceBlock,
    Topology,
    Volume,
)

Seconds = Annotated[int, Field(ge=1, le=604_800), WHOLE_NUMBER]
Argument = Annotated[str, Field(max_length=131_072)]


class RoleKind(StrEnum):
    """A role's behaviour."""

    SERVER = "Server"
    PREFILL = "Prefill"
    DECODE = "Decode"


class EngineName(StrEnum):
    """The engines whose command line is built here."""

    VLLM = "vLLM"
    SGLANG = "SGLang"


class TransferProtocol(StrEnum):
    """How a pair moves its cache blocks."""

    AUTO = "Auto"
    TCP = "TCP"
    RDMA = "RDMA"
    EFA = "EFA"
    CANN = "CANN"
    ROCM = "ROCM"


class Engine(Declared):
    """The engine of the deployment; the version is free-form and names the runner image."""

    name: EngineName
    version: Annotated[str, Field(min_length=1, max_length=64)] | None = None


class KvTransfer(Declared):
    """The link between the halves of a pair; an unset protocol is TCP."""

    protocol: TransferProtocol | None = None


class Rollout(Declared):
    """How a replacement is paced and how long it is waited for; nothing of it is rendered."""

    gate: Gate = Gate.READY
    deadline_seconds: Seconds = 1800
    admission_wait_seconds: Seconds = 120
    # `Force` is refused by a rule that says when it comes; the schema does not offer it.
    lost_node: Annotated[LostNode, WithJsonSchema({"const": "Wait"})] = LostNode.WAIT


def _model_name(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"name"}:
        raise wrong("the model's name (delivered weights, `artifactRef`, are not supported)")
    return value["name"]


ModelName = Annotated[str, Field(min_length=1, max_length=253), BeforeValidator(_model_name)]


class RoleFields(Declared):
    """What a role's entry and a role resource's declaration have in common."""

    kind: RoleKind = RoleKind.SERVER
    replicas: Annotated[int, Field(ge=1, le=1024), WHOLE_NUMBER] = 1
    size: Annotated[int, Field(ge=1, le=64), WHOLE_NUMBER] = 1
    instance_type: InstanceType
    resources: Resources | None = None
    interface: Annotated[int, Field(ge=0, le=64), WHOLE_NUMBER] = 0
    command: tuple[Argument, ...] = ()
    readiness: Readiness | None = None
    startup_timeout_seconds: Seconds = 3600
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    image_pull_policy: PullPolicy | None = None
    image_pull_secrets: Annotated[tuple[ObjectName, ...], Field(max_length=32)] = ()
    privileged: bool = False
    ports: tuple[Port, ...] = ()
    volumes: tuple[Volume, ...] = ()
    shm_size: SizeQuantity | None = None
    termination_grace_period_seconds: Annotated[int, Field(ge=15, le=3600), WHOLE_NUMBER] | None = (
        None
    )
    extra_args: tuple[Argument, ...] = ()
    env: tuple[EnvVar, ...] = ()
    topology: Topology | None = None

    @property
    def is_managed(self) -> bool:
        """Whether the command line is built here; a take-over role brings its own `command`."""
        return not self.command

    @property
    def geometry(self) -> Geometry:
        """What one member asks for, resolved against the instance type."""
        return resolve_geometry(
            self.resources, instance_type=self.instance_type, interfaces=self.interface
        )


class RoleSpec(RoleFields):
    """One entry of a deployment's `roles`; its blocks override the deployment's, key by key."""

    name: Name
    pod: PodBlock | None = None
    service: ServiceBlock | None = None
    rollout: Rollout | None = None


class DeploymentSpec(Declared):
    """A deployment: one engine, one model, 1 to 10 roles."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    namespace: Name = "default"
    model: ModelName
    engine: Engine
    kv_transfer: KvTransfer | None = None
    roles: Annotated[tuple[RoleSpec, ...], Field(min_length=1)]
    front: Name | None = None
    pod: PodBlock = PodBlock()
    service: ServiceBlock = ServiceBlock()
    rollout: Rollout = Rollout()
    instance_types: tuple[InstanceType, ...] = ()


class RoleDeclaration(RoleFields):
    """Everything one role's resource carries: the role, and what it must know of its deployment."""

    deployment: Annotated[str, Field(min_length=1, max_length=253)]
    namespace: Name = "default"
    role: Name
    role_kinds: dict[str, RoleKind]
    front_role: Name
    model: ModelName
    engine: Engine
    kv_transfer: KvTransfer | None = None
    pod: PodBlock = PodBlock()
    service: ServiceBlock = ServiceBlock()
    rollout: Rollout = Rollout()
