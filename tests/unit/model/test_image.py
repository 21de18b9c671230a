from typing import Any

import pytest

from gpustack_deploy.model.image import image_of
from gpustack_deploy.model.role import RoleDeclaration
from tests.declarations import ASCEND, CPU, H200, raw_role

pytestmark = pytest.mark.check

CUDA = {**H200, "runtimeVersion": "12.9"}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"image": "mine:1", "instanceType": CUDA}, "mine:1"),
        ({"instanceType": CUDA}, "gpustack/runner:cuda12.9-vllm0.11.0"),
        (
            {"instanceType": ASCEND, "engine": {"name": "SGLang", "version": "0.5.18"}},
            "gpustack/runner:cann9.0-910b-sglang0.5.18",
        ),
        ({"instanceType": {**ASCEND, "runtimeVariant": None}}, None),
        ({"instanceType": CUDA, "engine": {"name": "vLLM"}}, None),
        ({"instanceType": H200}, None),
        ({"instanceType": {**CPU, "runtimeVersion": "1"}}, None),
    ],
)
def test_the_image_is_the_declared_one_or_the_runner_image(
    fields: dict[str, Any], want: str | None
) -> None:
    declaration = RoleDeclaration.model_validate(raw_role(**{"image": None, **fields}))
    assert want == image_of(declaration)
