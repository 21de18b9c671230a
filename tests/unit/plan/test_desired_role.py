import pytest

from gpustack_deploy.model.desired import Desired, Gate, LostNode, ServicePort, ServiceShape
from gpustack_deploy.plan.desired_role import desired_of
from gpustack_deploy.plan.fingerprint import role_fingerprint
from tests.declarations import role

pytestmark = pytest.mark.check


def test_a_declaration_is_reduced_to_what_decides_steps() -> None:
    declaration = role(
        replicas=3,
        size=2,
        resources={"count": 2},
        extraArgs=["--data-parallel-external-lb"],
        service={"labels": {"a": "b"}, "annotations": {"c": "d"}},
        rollout={"gate": "Admitted", "lostNode": "Wait"},
    )
    assert Desired(
        deployment="chat",
        namespace="ml",
        role="server",
        kind="Server",
        replicas=3,
        size=2,
        fingerprint=role_fingerprint(declaration),
        local_queue="h200",
        requests={
            "cpu": "3200m",
            "memory": "48Gi",
            "ephemeral-storage": "1920Mi",
            "nvidia.com/gpu": "2",
        },
        is_managed=True,
        is_external_dp=True,
        service=ServiceShape(
            ports=(ServicePort("http", 8000, 8000),), labels={"a": "b"}, annotations={"c": "d"}
        ),
        front_role="server",
        gate=Gate.ADMITTED,
        lost_node=LostNode.WAIT,
    ) == desired_of(declaration)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"extraArgs": ["--port", "9000"]}, (ServicePort("http", 8000, 9000),)),
        (
            {"ports": [{"port": 9000}, {"port": 53, "protocol": "UDP"}]},
            (ServicePort("tcp-9000", 9000, 9000), ServicePort("udp-53", 53, 53, "UDP")),
        ),
        ({"command": ["x", "--port=1"]}, (ServicePort("http", 8000, 1),)),
    ],
)
def test_the_service_publishes_the_declared_ports_or_8000(
    fields: dict[str, object], want: tuple[ServicePort, ...]
) -> None:
    assert want == desired_of(role(**fields)).service.ports
