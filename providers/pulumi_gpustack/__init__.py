"""The Pulumi front end of gpustack_deploy: components and resources for GPU model serving."""
