"""From a role's declaration to what the planner decides by."""

from gpustack_deploy.model.desired import Desired, ServicePort, ServiceShape
from gpustack_deploy.model.hardware import render_resources
from gpustack_deploy.model.listener import is_external_dp, listener_of
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.plan.fingerprint import role_fingerprint
from gpustack_deploy.plan.template import fabric_of


def desired_of(declaration: RoleDeclaration) -> Desired:
    """Return the role as declared, reduced to what decides steps."""
    resources = render_resources(
        declaration.geometry,
        instance_type=declaration.instance_type,
        fabric=fabric_of(declaration),
    )
    return Desired(
        deployment=declaration.deployment,
        namespace=declaration.namespace,
        role=declaration.role,
        kind=str(declaration.kind),
        replicas=declaration.replicas,
        size=declaration.size,
        fingerprint=role_fingerprint(declaration),
        local_queue=declaration.instance_type.local_queue,
        requests=resources.requests,
        is_managed=declaration.is_managed,
        is_external_dp=is_external_dp(declaration),
        service=service_shape(declaration),
        front_role=declaration.front_role,
        gate=declaration.rollout.gate,
        lost_node=declaration.rollout.lost_node,
    )


def service_shape(declaration: RoleDeclaration) -> ServiceShape:
    """Return the ports, labels and annotations of the role's and the front Service."""
    listener = listener_of(declaration)
    ports = tuple(
        ServicePort(
            name=f"{each.protocol.lower()}-{each.port}",
            port=each.port,
            target_port=each.port,
            protocol=str(each.protocol),
        )
        for each in declaration.ports
    ) or (ServicePort(name="http", port=listener.published_port, target_port=listener.port),)
    return ServiceShape(
        ports=ports,
        labels=dict(declaration.service.labels),
        annotations=dict(declaration.service.annotations),
    )
