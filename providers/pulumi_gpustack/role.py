"""The resource of one role: what a component's child is, and what state knows of it."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi.dynamic

from pulumi_gpustack import _outputs
from pulumi_gpustack.role_provider import RoleProvider


class ModelDeploymentRole(pulumi.dynamic.Resource, module="gpustack", name="ModelDeploymentRole"):
    """One role of a deployment. Made by `ModelDeployment`; its type and keys are permanent (D19).

    State keys are camelCase; the snake_case properties are what programs read.
    """

    deployment: pulumi.Output[str]
    """Name of the deployment."""

    namespace: pulumi.Output[str]
    """Its namespace."""

    role: pulumi.Output[str]
    """Name of the role."""

    endpoint: pulumi.Output[str]
    """Where the role answers inside the cluster; of the front role, the deployment's address."""

    replicas: pulumi.Output[int]
    """Replicas that stand."""

    size: pulumi.Output[int]
    """Members of each replica."""

    fingerprint: pulumi.Output[str]
    """Changes exactly when what is rendered changes."""

    claim: pulumi.Output[str]
    """Stamp of the create that this state belongs to."""

    serviceName: pulumi.Output[str]  # noqa: N815 - a state key
    servicePort: pulumi.Output[int]  # noqa: N815
    podSelector: pulumi.Output[Mapping[str, str]]  # noqa: N815
    frontRole: pulumi.Output[str]  # noqa: N815
    schemaVersion: pulumi.Output[int]  # noqa: N815
    recordUid: pulumi.Output[str]  # noqa: N815
    clusterUid: pulumi.Output[str]  # noqa: N815
    clusterCa: pulumi.Output[str]  # noqa: N815
    namespaceUid: pulumi.Output[str]  # noqa: N815
    isFinished: pulumi.Output[bool]  # noqa: N815

    def __init__(
        self,
        resource_name: str,
        declaration: Mapping[str, pulumi.Input[Any]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declare the role.

        Args:
            resource_name: The logical name.
            declaration: The role's declaration with camelCase keys, as files spell it.
            opts: The resource's options; it is always deleted before it is replaced, since two of
                it would share names and quota.
        """
        outputs = dict.fromkeys((*_outputs.IDENTITY, *_outputs.COMPUTED, *_outputs.ACHIEVED))
        super().__init__(
            RoleProvider(),
            resource_name,
            {**outputs, **declaration},
            pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(delete_before_replace=True)),
        )

    @property
    def service_name(self) -> pulumi.Output[str]:
        """Name of the role's Service."""
        return self.serviceName

    @property
    def service_port(self) -> pulumi.Output[int]:
        """Port of the role's Service."""
        return self.servicePort

    @property
    def pod_selector(self) -> pulumi.Output[Mapping[str, str]]:
        """Labels that exactly the role's Pods carry."""
        return self.podSelector

    @property
    def front_role(self) -> pulumi.Output[str]:
        """The role that keeps the deployment's front Service, fixed at creation."""
        return self.frontRole

    @property
    def is_finished(self) -> pulumi.Output[bool]:
        """Whether the last run reached the declaration."""
        return self.isFinished
