"""A program as users write it, only type-checked: every leaf takes a value that is known later."""

import pulumi

import pulumi_gpustack as gpustack

config = pulumi.Config()
image: pulumi.Output[str] = config.require_secret("image")
namespace: pulumi.Output[str] = pulumi.Output.from_input("ml")
count: pulumi.Output[int] = pulumi.Output.from_input(2)

h200 = gpustack.InstanceType(
    name="h200",
    local_queue="h200",
    accelerator_group="nvidia-h200",
    unit_cpu=16,
    unit_memory="192Gi",
    accelerator_memory="141Gi",
    local_storage="500Gi",
)

chat = gpustack.ModelDeployment(
    "chat",
    namespace="ml",
    model="Qwen/Qwen3-32B",
    engine=gpustack.Engine(name="vLLM", version="0.11.0"),
    roles=[
        gpustack.Role(
            name="server",
            replicas=2,
            instance_type=h200,
            resources=gpustack.WholeGpu(count=2),
            image="vllm/vllm-openai:v0.11.0",
            env=[gpustack.Env("HF_TOKEN", secret_ref=("hf", "token"))],
        )
    ],
)
pulumi.export("endpoint", chat.endpoint)

pair = gpustack.ModelDeployment(
    "pair",
    pulumi.ResourceOptions(protect=True),
    name=config.require("name"),
    namespace=namespace,
    model=namespace.apply(lambda name: f"models/{name}"),
    engine={"name": "vLLM", "version": image},
    front="prefill",
    kv_transfer=gpustack.KvTransfer(protocol="RDMA"),
    pod={
        "labels": {"team": namespace},
        "tolerations": [{"key": "gpu", "operator": "Exists"}, gpustack.Toleration(key="spot")],
        "security_context": {"runAsUser": 1000},
    },
    service=gpustack.Service(annotations={"example.com/pool": namespace}),
    rollout={"gate": "Admitted", "deadline_seconds": count},
    profiles={
        "h200": h200,
        "l4": {"name": "l4", "local_queue": "l4", "unit_cpu": 8, "unit_memory": "32Gi"},
    },
    connection={"context": "second"},
    role_options={"decode": pulumi.ResourceOptions(ignore_changes=["replicas"])},
    roles=[
        {
            "name": "prefill",
            "kind": "Prefill",
            "instance_type": "h200",
            "interface": 1,
            "image": image,
            "replicas": count,
            "resources": {"count": count},
            "env": [
                {"name": "A", "value": image},
                {"name": "B", "secret_ref": (namespace, "token")},
                gpustack.Env("C", config_map_ref=gpustack.KeyRef(name=namespace, key="c")),
                gpustack.Env("D", field_ref="status.podIP"),
            ],
            "ports": [{"port": 8000}, gpustack.Port(count, protocol="TCP")],
        },
        gpustack.Role(
            name="decode",
            kind="Decode",
            instance_type=h200,
            size=count,
            resources=gpustack.Partition(profile="3g.71gb"),
            command=["serve", "--model", image],
            extra_args=[image],
            readiness=gpustack.Readiness(http={"path": "/health", "port": count}),
            volumes=[
                gpustack.Volume(
                    mount_path="/models",
                    persistent_volume_claim=gpustack.ClaimSource(namespace),
                    read_only=True,
                ),
                {"mount_path": "/scratch", "empty_dir": {"size_limit": "10Gi"}},
                gpustack.Volume(mount_path="/conf", config_map={"name": namespace}),
            ],
            shm_size="32Gi",
            topology={"required_level": "cloud.example.com/rack"},
            pod=gpustack.Pod(node_selector={"zone": namespace}),
            startup_timeout_seconds=count,
        ),
    ],
)

name: pulumi.Output[str] = pair.name
where: pulumi.Output[str] = pair.namespace
role: gpustack.ModelDeploymentRole = pair.roles["prefill"]
service: pulumi.Output[str] = role.service_name
port: pulumi.Output[int] = role.service_port
selector = role.pod_selector.apply(lambda labels: labels["app.kubernetes.io/component"])
counts: pulumi.Output[int] = role.replicas.apply(lambda replicas: replicas + 1)
shape: pulumi.Output[int] = role.size
hash_of: pulumi.Output[str] = role.fingerprint
