"""What users write about Pods and Services beyond the role's own fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypedDict

from pulumi import Input

from pulumi_gpustack._wire import Args, Blocks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Toleration(Args):
    """One toleration, as Kubernetes spells it."""

    key: Input[str] | None = None
    """The taint's key; unset matches every key."""

    operator: Input[str] | None = None
    """`Exists` or `Equal`."""

    value: Input[str] | None = None
    """The taint's value."""

    effect: Input[str] | None = None
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`; unset matches each."""

    toleration_seconds: Input[int] | None = None
    """How long a `NoExecute` taint is tolerated."""


class TolerationDict(TypedDict, total=False):
    """The dict form of `Toleration`."""

    key: Input[str]
    operator: Input[str]
    value: Input[str]
    effect: Input[str]
    toleration_seconds: Input[int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pod(Args):
    """What may be set of a Pod beyond the role's own fields; a role's keys win over these."""

    labels: Mapping[str, Input[str]] | None = None
    """Labels besides the product's own, which are refused here."""

    annotations: Mapping[str, Input[str]] | None = None
    """Annotations besides the product's own, which are refused here."""

    service_account_name: Input[str] | None = None
    """The ServiceAccount; its token is not mounted."""

    priority_class_name: Input[str] | None = None
    """The Pod's PriorityClass."""

    workload_priority_class: Input[str] | None = None
    """Kueue's WorkloadPriorityClass."""

    runtime_class_name: Input[str] | None = None
    """The RuntimeClass."""

    node_selector: Mapping[str, Input[str]] | None = None
    """Labels that a node must carry, besides those of the queue's flavor."""

    tolerations: "Sequence[Toleration | TolerationDict] | None" = None
    """Tolerations, besides those of the queue's flavor."""

    security_context: Mapping[str, Any] | None = None
    """The Pod's securityContext, with Kubernetes' own keys."""

    container_security_context: Mapping[str, Any] | None = None
    """The engine container's securityContext, with Kubernetes' own keys."""

    dns_policy: Input[str] | None = None
    """`ClusterFirst`, `ClusterFirstWithHostNet` or `Default`."""

    blocks: ClassVar[Blocks] = {"tolerations": Toleration}


class PodDict(TypedDict, total=False):
    """The dict form of `Pod`."""

    labels: Mapping[str, Input[str]]
    annotations: Mapping[str, Input[str]]
    service_account_name: Input[str]
    priority_class_name: Input[str]
    workload_priority_class: Input[str]
    runtime_class_name: Input[str]
    node_selector: Mapping[str, Input[str]]
    tolerations: Sequence[Toleration | TolerationDict]
    security_context: Mapping[str, Any]
    container_security_context: Mapping[str, Any]
    dns_policy: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Service(Args):
    """What may be set of the role's Service and, for the front role, of the front Service."""

    labels: Mapping[str, Input[str]] | None = None
    """Labels besides the product's own, which are refused here."""

    annotations: Mapping[str, Input[str]] | None = None
    """Annotations, such as a cloud's load balancer settings."""


class ServiceDict(TypedDict, total=False):
    """The dict form of `Service`."""

    labels: Mapping[str, Input[str]]
    annotations: Mapping[str, Input[str]]
