"""The JSON Schema of a deployment's declaration, for editors and for checks of files."""

import json

from gpustack_deploy.model.schema import deployment_schema

FILE = "docs/reference/schema.json"


def generate() -> dict[str, str]:
    """The file; fields stand in the order in which the models declare them."""
    return {FILE: json.dumps(deployment_schema(), indent=2, ensure_ascii=False) + "\n"}
