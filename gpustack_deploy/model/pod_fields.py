"""The blocks of a role that end up in its Pods: environment, ports, volumes, probes, pod block."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from gpustack_deploy.model.declared import (
    ABSOLUTE_PATH,
    ENV_NAME,
    URL_PATH,
    WHOLE_NUMBER,
    Declared,
    KeyRef,
    LabelName,
    ObjectName,
    SizeQuantity,
    Text,
)

PortNumber = Annotated[int, Field(ge=1, le=65535), WHOLE_NUMBER]
MountPath = Annotated[str, Field(min_length=1, max_length=1024, pattern=ABSOLUTE_PATH)]


class Protocol(StrEnum):
    """Transport of a port."""

    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


class PullPolicy(StrEnum):
    """When the kubelet pulls the image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class EnvVar(Declared):
    """One environment variable with exactly one source."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=ENV_NAME)]
    value: str | None = None
    secret_ref: KeyRef | None = None
    config_map_ref: KeyRef | None = None
    field_ref: Text | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources that are given."""
        given = {
            "value": self.value,
            "secretRef": self.secret_ref,
            "configMapRef": self.config_map_ref,
            "fieldRef": self.field_ref,
        }
        return tuple(name for name, source in given.items() if source is not None)


class Port(Declared):
    """One port of the engine container and of the role's Service; its name is derived."""

    port: PortNumber
    protocol: Protocol = Protocol.TCP


class ObjectSource(Declared):
    """A ConfigMap or a Secret, mounted whole."""

    name: ObjectName


class HostPathSource(Declared):
    """A path of the node."""

    path: MountPath
    type: Text | None = None


class ClaimSource(Declared):
    """A PersistentVolumeClaim of the namespace."""

    claim_name: ObjectName


class EmptyDirSource(Declared):
    """Scratch space that lives as long as the member."""

    medium: Literal["Memory"] | None = None
    size_limit: SizeQuantity | None = None


class Volume(Declared):
    """One mount of the engine container; an entry without a source is left out."""

    mount_path: MountPath
    read_only: bool = False
    sub_path: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    config_map: ObjectSource | None = None
    secret: ObjectSource | None = None
    host_path: HostPathSource | None = None
    persistent_volume_claim: ClaimSource | None = None
    empty_dir: EmptyDirSource | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources that are given."""
        given = {
            "configMap": self.config_map,
            "secret": self.secret,
            "hostPath": self.host_path,
            "persistentVolumeClaim": self.persistent_volume_claim,
            "emptyDir": self.empty_dir,
        }
        return tuple(name for name, source in given.items() if source is not None)


class HttpReadiness(Declared):
    """Ready while a GET of the path answers with success."""

    path: Annotated[str, Field(min_length=1, max_length=1024, pattern=URL_PATH)]
    port: PortNumber


class ExecReadiness(Declared):
    """Ready while the command ends with 0."""

    command: Annotated[tuple[Annotated[str, Field(max_length=65536)], ...], Field(min_length=1)]


class Readiness(Declared):
    """How a take-over role is found ready: exactly one of the two.

    Above size 1 only the leader is asked, by a command inside the container: it needs `sh`, and
    `python3` for http.
    """

    http: HttpReadiness | None = None
    exec: ExecReadiness | None = None


class Topology(Declared):
    """Where one replica's members must stand together."""

    required_level: Text | None = None


class Toleration(Declared):
    """One toleration, as Kubernetes spells it."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Annotated[int, WHOLE_NUMBER] | None = None


class PodBlock(Declared):
    """What may be set of a Pod beyond the role's own fields; nothing else can be."""

    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    service_account_name: ObjectName | None = None
    priority_class_name: ObjectName | None = None
    workload_priority_class: LabelName | None = None
    runtime_class_name: ObjectName | None = None
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    security_context: dict[str, JsonValue] = Field(default_factory=dict)
    container_security_context: dict[str, JsonValue] = Field(default_factory=dict)
    dns_policy: Literal["ClusterFirst", "ClusterFirstWithHostNet", "Default"] | None = None


class ServiceBlock(Declared):
    """What may be set of the role's and the front Service."""

    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
