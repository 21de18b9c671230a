import json
from typing import Any

import jsonschema
import pytest

from gpustack_deploy.model.schema import deployment_schema, role_schema
from gpustack_deploy.model.spec import (
    deployment_problems,
    dump_role,
    parse_deployment,
    role_declarations,
)
from tests.declarations import CPU, H200, raw_deployment, raw_entry, raw_pair

pytestmark = pytest.mark.check

DEPLOYMENT = jsonschema.Draft202012Validator(deployment_schema())
ROLE = jsonschema.Draft202012Validator(role_schema())

ENTRANCE = {**{key: H200[key] for key in H200 if key != "localQueue"}, "entrance": "h200"}

ACCEPTED = [
    raw_deployment(),
    raw_deployment(*raw_pair(), kvTransfer={"protocol": "RDMA"}, front="decode"),
    raw_deployment(raw_entry(instanceType="h200"), instanceTypes=[H200]),
    raw_deployment(raw_entry(instanceType=ENTRANCE, resources={"accelerator": 2})),
    raw_deployment(raw_entry(instanceType=CPU), model={"name": "m"}),
    raw_deployment(
        raw_entry(
            env=[{"name": "A", "secretRef": {"name": "s", "key": "k"}}],
            volumes=[{"mountPath": "/d", "emptyDir": {}}],
            ports=[{"port": 80}],
            image=None,
            command=["x"],
            readiness={"http": {"path": "/", "port": 80}},
        ),
        pod={"securityContext": {"runAsUser": 1}, "tolerations": [{"operator": "Exists"}]},
        rollout={"gate": "Admitted"},
    )
    | {"engine": {"name": "SGLang", "version": "1"}},
]
ACCEPTED[-1]["roles"][0]["image"] = "mine"

REFUSED = [
    raw_deployment(rolez=[]),
    raw_deployment(roles=[]),
    raw_deployment(raw_entry(size=65)),
    raw_deployment(raw_entry(size="2")),
    raw_deployment(raw_entry(replicas=0)),
    raw_deployment(raw_entry(kind="Foo")),
    raw_deployment(raw_entry(name="A")),
    raw_deployment(raw_entry(terminationGracePeriodSeconds=14)),
    raw_deployment(raw_entry(env=[{"name": "A", "value": 1}])),
    raw_deployment(raw_entry(shmSize="16GB")),
    raw_deployment(raw_entry(instanceType={**ENTRANCE, "localQueue": "x"})),
    raw_deployment(raw_entry(instanceType={"name": "x"})),
    raw_deployment(raw_entry(resources={"accelerator": 2, "count": 2})),
    raw_deployment(raw_entry(kvCache={})),
    raw_deployment(engine={"name": "TensorRT"}),
    raw_deployment(model={"name": "m", "artifactRef": {}}),
    raw_deployment(model=None),
    raw_deployment(rollout={"lostNode": "Force"}),
    raw_deployment(raw_entry(rollout={"lostNode": "Force"})),
]


def test_the_schemas_are_schemas() -> None:
    for schema in (deployment_schema(), role_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema == json.loads(json.dumps(schema))


@pytest.mark.parametrize("raw", ACCEPTED)
def test_what_is_accepted_validates(raw: dict[str, Any]) -> None:
    assert () == deployment_problems(raw)
    assert [] == [error.message for error in DEPLOYMENT.iter_errors(raw)]
    for declaration in role_declarations(parse_deployment(raw)):
        assert [] == [error.message for error in ROLE.iter_errors(dump_role(declaration))]


@pytest.mark.parametrize("raw", REFUSED)
def test_what_the_schema_sees_is_refused_by_both(raw: dict[str, Any]) -> None:
    assert not DEPLOYMENT.is_valid(raw)
    assert deployment_problems(raw)
