"""The JSON Schema of a deployment's declaration, generated from the models.

It says the shape: fields, types, defaults, limits, closed sets. Rules between fields are judged by
`model.spec` alone.
"""

from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from gpustack_deploy.model.role import DeploymentSpec, RoleDeclaration

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_IDENTIFIER: Final = "urn:gpustack-deploy:model-deployment"


class _WithoutTitles(GenerateJsonSchema):
    """A title that repeats the field's name says nothing."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002
        return False


def deployment_schema() -> dict[str, Any]:
    """Return the schema of a deployment as it is written in files and stack configuration."""
    schema = DeploymentSpec.model_json_schema(by_alias=True, schema_generator=_WithoutTitles)
    definitions = schema["$defs"]
    _accept_alias(definitions["InstanceType"], name="localQueue", alias="entrance")
    _accept_alias(definitions["Resources"], name="count", alias="accelerator")
    # A role may refer to one of the deployment's types by its name, and a model be an object.
    fields = definitions["RoleSpec"]["properties"]
    fields["instanceType"] = {"anyOf": [fields["instanceType"], {"type": "string"}]}
    schema["properties"]["model"] = {
        "anyOf": [
            schema["properties"]["model"],
            {
                "type": "object",
                "properties": {"name": schema["properties"]["model"]},
                "required": ["name"],
                "additionalProperties": False,
            },
        ]
    }
    return {"$schema": DIALECT, "$id": _IDENTIFIER, **schema}


def role_schema() -> dict[str, Any]:
    """Return the schema of what one role's resource carries."""
    schema = RoleDeclaration.model_json_schema(by_alias=True, schema_generator=_WithoutTitles)
    return {"$schema": DIALECT, "$id": f"{_IDENTIFIER}-role", **schema}


def _accept_alias(block: dict[str, Any], *, name: str, alias: str) -> None:
    """Let the block say a field by its other name, never by both."""
    block["properties"][alias] = block["properties"][name]
    if name in block.get("required", ()):
        block["required"].remove(name)
        block["oneOf"] = [{"required": [name]}, {"required": [alias]}]
    else:
        block["not"] = {"required": [name, alias]}
