"""GPU model serving as code: `ModelDeployment`, and the args classes it is written with."""

from pulumi_gpustack import inputs
from pulumi_gpustack.deployment import ModelDeployment
from pulumi_gpustack.inputs import *  # noqa: F403 - the list is inputs.__all__
from pulumi_gpustack.role import ModelDeploymentRole

__all__ = ["ModelDeployment", "ModelDeploymentRole"]
__all__ += inputs.__all__
