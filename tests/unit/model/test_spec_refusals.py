# ruff: noqa: E501 - tables read best with one row on one line
"""Every refusal: its path, what was found, what is needed; each sentence says what to do next."""

from typing import Any

import pytest

from gpustack_deploy.model.errors import InvalidSpec
from gpustack_deploy.model.spec import (
    deployment_problems,
    parse_deployment,
    parse_role,
    role_problems,
)
from tests.declarations import (
    ASCEND,
    CPU,
    H200,
    PARTITIONED,
    SLICED,
    raw_deployment,
    raw_entry,
    raw_pair,
    raw_role,
)

pytestmark = pytest.mark.check

NOTHING: frozenset[str] = frozenset()
PAIR = {"prefill": "Prefill", "decode": "Decode"}
LONG = "a" * 60

# Fields of a role's declaration, the path that is named, and what its sentence must say.
FIELDS: list[tuple[str, dict[str, Any], str, str]] = [
    ("unknown field", {"replica": 2}, "replica", "did you mean replicas?"),
    ("unknown field, nothing near", {"zzz": 2}, "zzz", "no such field; remove it (fields here: "),
    ("unknown field below", {"topology": {"level": "x"}}, "topology.level", "requiredLevel"),
    ("unknown field in a list", {"ports": [{"prt": 1}]}, "ports[0].prt", "did you mean port?"),
    ("shared cache", {"kvCache": {}}, "kvCache", "not supported; remove it"),
    ("router", {"router": {"name": "x"}}, "router", "a managed router is not supported"),
    ("elastic", {"elasticEp": {"width": 2}}, "elasticEp", "not supported in this version"),
    ("template", {"template": {}}, "template", "use the role's own fields"),
    ("args", {"args": []}, "args", "there is no `args`; use `extraArgs`"),
    ("weights", {"model": {"name": "m", "artifactRef": {}}}, "model", "found an object, needed the model's name (delivered weights, `artifactRef`, are not"),
    ("missing field", {"model": None}, "model", "found nothing, this field is needed"),
    ("missing below", {"instanceType": {**H200, "localQueue": None}}, "instanceType.localQueue", "found nothing"),
    ("kind out of the set", {"kind": "Foo"}, "kind", "found 'Foo', needed one of 'Server', 'Prefill' or 'Decode'"),
    ("engine out of the set", {"engine": {"name": "vllm"}}, "engine.name", "needed one of 'vLLM' or 'SGLang'"),
    ("protocol", {"kvTransfer": {"protocol": "MUSA"}}, "kvTransfer.protocol", "'EFA', 'CANN' or 'ROCM'"),
    ("gate", {"rollout": {"gate": "Started"}}, "rollout.gate", "needed one of 'Ready' or 'Admitted'"),
    ("replicas 0", {"replicas": 0}, "replicas", "found 0, needed 1 or more"),
    ("replicas too many", {"replicas": 1025}, "replicas", "found 1025, needed 1024 or less"),
    ("size too large", {"size": 65}, "size", "found 65, needed 64 or less"),
    ("number as text", {"size": "2"}, "size", "found '2', needed a whole number"),
    ("number as a flag", {"size": True}, "size", "found true, needed a whole number"),
    ("broken number", {"size": 1.5}, "size", "found 1.5, needed a whole number"),
    ("list for a number", {"size": [1]}, "size", "found a list, needed a whole number"),
    ("number for text", {"image": 5}, "image", "found 5, needed text; quote it"),
    ("text for a list", {"extraArgs": "--x"}, "extraArgs", "found text, needed a list"),
    ("text for an object", {"engine": "vLLM"}, "engine", "found 'vLLM', needed an object"),
    ("text for a map", {"pod": {"labels": "x"}}, "pod.labels", "found 'x', needed an object"),
    ("text for a flag", {"privileged": "maybe"}, "privileged", "needed true or false"),
    ("map value", {"pod": {"labels": {"example.com/a": 1}}}, 'pod.labels["example.com/a"]', "needed text; quote it"),
    ("bytes", {"image": b"x" * 3, "model": object()}, "model", "found something else, needed text"),
    ("empty model", {"model": ""}, "model", "needed at least 1 character(s)"),
    ("long model", {"model": "m" * 254}, "model", "needed at most 253 characters"),
    ("role name", {"role": "My"}, "role", "found 'My', needed lower-case letters, digits and dashes"),
    ("quantity", {"shmSize": "16GB"}, "shmSize", 'needed a quantity such as "192Gi" or 16'),
    ("quantity of a kind", {"shmSize": []}, "shmSize", "found a list, needed a quantity"),
    ("quantity zero", {"shmSize": 0}, "shmSize", "needed a quantity above zero"),
    ("grace too short", {"terminationGracePeriodSeconds": 14}, "terminationGracePeriodSeconds", "needed 15 or more"),
    ("secrets too many", {"imagePullSecrets": ["s"] * 33}, "imagePullSecrets", "needed at most 32 entries"),
    ("port 0", {"ports": [{"port": 0}]}, "ports[0].port", "needed 1 or more"),
    ("exec without a command", {"command": ["x"], "readiness": {"exec": {"command": []}}}, "readiness.exec.command", "needed at least 1 entry"),
    ("relative mount", {"volumes": [{"mountPath": "data"}]}, "volumes[0].mountPath", "needed an absolute path"),
    ("environment name", {"env": [{"name": "1A", "value": "x"}]}, "env[0].name", "not beginning with a digit"),
]  # fmt: skip

RULES: list[tuple[str, dict[str, Any], str, str]] = [
    ("eleven roles", {"roleKinds": {"server": "Server"} | {f"s{i}": "Server" for i in range(10)}}, "roleKinds", "found 11 roles, needed 1 to 10"),
    ("role of the set misnamed", {"roleKinds": {"server": "Server", "B_d": "Server"}}, "roleKinds.B_d", "found role name 'B_d'"),
    ("mixed with a Server", {"roleKinds": {"server": "Server", "p-1": "Prefill"}}, 'roleKinds["p-1"]', "found kind Prefill beside a Server"),
    ("two of a half", {"role": "prefill", "kind": "Prefill", "roleKinds": {**PAIR, "more": "Prefill"}}, "roleKinds.more", "found a second Prefill beside role 'prefill'"),
    ("own kind differs", {"roleKinds": {"server": "Prefill"}}, "roleKinds", "found kind Prefill for role 'server', needed its kind Server"),
    ("not in the set", {"roleKinds": {"other": "Server"}, "frontRole": "other"}, "roleKinds", "found no entry for role 'server'"),
    ("front role unknown", {"frontRole": "gone"}, "frontRole", "found 'gone', needed one of the roles server"),
    ("deployment with dots", {"deployment": "a.b"}, "deployment", "found Service name 'a.b' (3 characters)"),
    ("deployment begins with a digit", {"deployment": "1a"}, "deployment", "begins with a letter"),
    ("Service name too long", {"role": LONG, "roleKinds": None, "frontRole": LONG}, "role", "(65 characters)"),
    ("peer and role Service", {"role": "x", "size": 2, "roleKinds": {"x": "Server", "x-r0": "Server"}}, "role", "found Service name 'chat-x-r0' claimed by replica 0 of role 'x' and by role 'x-r0'"),
    ("member name too long", {"role": "a" * 54, "size": 2, "replicas": 12}, "role", "found member name 'chat-aaa"),
    ("no image", {"image": None}, "image", "`instanceType.runtimeVersion` would be needed to name the runner image"),
    ("no image, three missing", {"image": None, "engine": {"name": "vLLM"}, "instanceType": CPU}, "image", "`engine.version` and `instanceType.runtimeVersion` and `instanceType.backend`"),
    ("no image, no variant", {"image": None, "instanceType": {**ASCEND, "runtimeVariant": None}}, "image", "`instanceType.runtimeVariant`"),
    ("readiness of a managed role", {"readiness": {"http": {"path": "/", "port": 1}}}, "readiness", "asked on /health, needed a role with `command`"),
    ("readiness of both kinds", {"command": ["x"], "readiness": {"http": {"path": "/", "port": 1}, "exec": {"command": ["y"]}}}, "readiness", "found http and exec, needed exactly one"),
    ("readiness of no kind", {"command": ["x"], "readiness": {}}, "readiness", "found neither http nor exec"),
    ("hostname as a level", {"topology": {"requiredLevel": "kubernetes.io/hostname"}}, "topology.requiredLevel", "which is implicit"),
    ("level is no key", {"topology": {"requiredLevel": "a b"}}, "topology.requiredLevel", "found 'a b', needed a node label's key"),
    ("level's prefix is no domain", {"topology": {"requiredLevel": "A_b/c"}}, "topology.requiredLevel", "needed a node label's key"),
    ("Kueue's label", {"pod": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}}, 'pod.labels["kueue.x-k8s.io/queue-name"]', "which is written here"),
    ("own annotation", {"pod": {"annotations": {"modeldeployment.gpustack.ai/x": "x"}}}, 'pod.annotations["modeldeployment.gpustack.ai/x"]', "which is written here"),
    ("evidence of a managed role", {"pod": {"annotations": {"prometheus.io/port": "1"}}}, 'pod.annotations["prometheus.io/port"]', "which is written here"),
    ("Service label", {"service": {"labels": {"app.kubernetes.io/name": "x"}}}, 'service.labels["app.kubernetes.io/name"]', "which is written here"),
    ("Service annotation", {"service": {"annotations": {"a b": "x"}}}, 'service.annotations["a b"]', "found the key 'a b'"),
    ("label value", {"pod": {"labels": {"team": "a b"}}}, "pod.labels.team", "found a value that is no label value"),
    ("node selector key", {"pod": {"nodeSelector": {"/x": "y"}}}, 'pod.nodeSelector["/x"]', "found the key '/x'"),
    ("variable without a source", {"env": [{"name": "A"}]}, "env[0]", "found no source for 'A', needed exactly one of"),
    ("variable with two sources", {"env": [{"name": "A", "value": "", "fieldRef": "metadata.name"}]}, "env[0]", "found value and fieldRef"),
    ("reserved variable", {"env": [{"name": "GPUSTACK_MEMBER_INDEX", "value": "0"}]}, "env[0].name", "reserved at every size"),
    ("reserved variable, take-over", {"command": ["x"], "env": [{"name": "GPUSTACK_REPLICA_SIZE", "value": "0"}]}, "env[0].name", "reserved at every size"),
    ("owned variable", {"env": [{"name": "VLLM_MOONCAKE_BOOTSTRAP_PORT", "value": "1"}]}, "env[0].name", "own the whole line with `command`"),
    ("variable twice", {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "env[1].name", "found 'A' again"),
    ("owned flag", {"extraArgs": ["--x", "--kv-events-config={}"]}, "extraArgs[1]", "found --kv-events-config, which is written here for vLLM"),
    ("degree without a value", {"extraArgs": ["-tp"]}, "extraArgs[0]", "found no value for --tensor-parallel-size"),
    ("degree that is no number", {"extraArgs": ["-tp", "two"]}, "extraArgs[0]", "found 'two' for --tensor-parallel-size"),
    ("degree 0", {"extraArgs": ["-pp", "0"]}, "extraArgs[0]", "found '0' for --pipeline-parallel-size"),
    ("degree out of range", {"extraArgs": ["-tp", "9999999"]}, "extraArgs[0]", "needed a whole number of 1 or more"),
    ("degree in the environment", {"env": [{"name": "VLLM_DP_SIZE", "value": "x"}]}, "env[0].value", "found no whole number for VLLM_DP_SIZE"),
    ("width above the cards", {"resources": {"count": 2}, "extraArgs": ["-tp", "2", "-pp", "2"]}, "extraArgs", "found a width of 4 on each member (--tensor-parallel-size 2 x --pipeline-parallel-size 2) and 2 card(s)"),
    ("width from the environment", {"env": [{"name": "VLLM_DP_SIZE", "value": "2"}]}, "extraArgs", "found a width of 2"),
    ("width of a local share", {"extraArgs": ["-dp", "8", "-dpl", "2"]}, "extraArgs", "found a width of 2"),
    ("width of SGLang", {"engine": {"name": "SGLang"}, "extraArgs": ["--tp", "2", "--dp", "2"]}, "extraArgs", "found a width of 4"),
    ("width with shared attention", {"engine": {"name": "SGLang"}, "extraArgs": ["--tp", "2", "--dp", "2", "--enable-dp-attention"]}, "extraArgs", "found a width of 2"),
    ("port twice", {"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}, "ports[1]", "found TCP port 80 again"),
    ("bootstrap port declared", {"role": "prefill", "kind": "Prefill", "roleKinds": PAIR, "ports": [{"port": 80}, {"port": 8998}]}, "ports[1].port", "found 8998, where a prefiller's transfer bootstrap listens"),
    ("bootstrap port passed", {"role": "prefill", "kind": "Prefill", "roleKinds": PAIR, "extraArgs": ["--port", "8998"]}, "extraArgs", "found --port 8998"),
    ("two ports", {"ports": [{"port": 80}], "extraArgs": ["--port", "81"]}, "extraArgs", "found --port 81 and `ports[0].port` 80"),
    ("two ports, take-over", {"ports": [{"port": 80}], "command": ["x", "--port=81"]}, "command", "found --port 81"),
    ("port without a value", {"extraArgs": ["--port"]}, "extraArgs", "found no value for --port"),
    ("port that is none", {"extraArgs": ["--port", "http"]}, "extraArgs", "found 'http' for --port"),
    ("volume with two sources", {"volumes": [{"mountPath": "/d", "emptyDir": {}, "secret": {"name": "s"}}]}, "volumes[0]", "found secret and emptyDir, needed one source"),
    ("mount twice", {"volumes": [{"mountPath": "/d"}, {"mountPath": "/d/"}]}, "volumes[1].mountPath", "found '/d' again"),
    ("mount of ours", {"volumes": [{"mountPath": "/etc/gpustack/kvcache"}]}, "volumes[0].mountPath", "needed a path outside /etc/gpustack"),
    ("sub path up", {"volumes": [{"mountPath": "/d", "subPath": "a/../b"}]}, "volumes[0].subPath", "needed a relative path without '..'"),
    ("sub path absolute", {"volumes": [{"mountPath": "/d", "subPath": "/a"}]}, "volumes[0].subPath", "found '/a'"),
    ("cardless unit", {"instanceType": {**CPU, "unitCpu": 2}}, "instanceType.unitCpu", "found '2' on a type without cards, needed 1"),
    ("unknown manufacturer", {"instanceType": {**H200, "acceleratorGroup": "acme-1"}}, "instanceType.acceleratorGroup", "found 'acme-1', needed a group that begins with a known manufacturer (amd, "),
    ("slices and partitions", {"instanceType": {**PARTITIONED, "sliceable": True}, "resources": {"profile": "1g.18gb"}}, "instanceType.sliceable", "never both"),
    ("no partitions there", {"instanceType": {**PARTITIONED, "acceleratorGroup": "amd-mi300x"}, "resources": {"profile": "1g.18gb"}}, "instanceType.partitionProfiles", "cards of amd, which cannot be partitioned"),
    ("partitions of unknown cards", {"instanceType": {**PARTITIONED, "acceleratorMemory": None}, "resources": {"profile": "1g.18gb"}}, "instanceType.acceleratorMemory", "needed the memory of one card"),
    ("partition above the card", {"instanceType": {**H200, "partitionProfiles": [{"name": "x", "memory": "142Gi"}]}, "resources": {"profile": "x"}}, "instanceType.partitionProfiles[0].memory", "needed at most the card's '141Gi'"),
    ("profile and percentage", {"resources": {"profile": "x", "memoryPercentage": 5}}, "resources", "one card cannot serve both"),
    ("two slices", {"instanceType": SLICED, "resources": {"count": 2, "memoryPercentage": 5}}, "resources.count", "found 2 beside a share of a card, needed 1 or none"),
    ("cards on a cardless type", {"instanceType": CPU, "resources": {"count": 1}}, "resources", "found an accelerator request on type 'cpu', which has no cards"),
    ("partition not there", {"resources": {"profile": "x"}}, "resources.profile", "whose cards are not partitioned"),
    ("partition not offered", {"instanceType": PARTITIONED, "resources": {"profile": "x"}}, "resources.profile", "needed one that type 'h200-mig' offers (1g.18gb, 3g.71gb)"),
    ("slice not offered", {"resources": {"coresPercentage": 5}}, "resources", "found a slice on type 'h200', which offers none"),
    ("whole cards of a partitioned pool", {"instanceType": PARTITIONED}, "resources", "found 1 whole card(s) on type 'h200-mig'"),
    ("more than the pool", {"instanceType": {**H200, "acceleratorCapacity": 8}, "resources": {"count": 9}}, "resources.count", "found 9, needed at most the 8 card(s)"),
    ("interface of a lone Server", {"interface": 1}, "interface", "found 1 on a vLLM Server of size 1"),
    ("interface of an SGLang half", {"interface": 1, "engine": {"name": "SGLang"}, "role": "decode", "kind": "Decode", "roleKinds": PAIR}, "interface", "found 1 on a SGLang Decode of size 1"),
    ("lost node by force", {"rollout": {"lostNode": "Force"}}, "rollout.lostNode", "found 'Force', which comes with part 2 (Status in the README), needed 'Wait'"),
    ("interface over TCP", {"interface": 1, "role": "decode", "kind": "Decode", "roleKinds": PAIR}, "interface", "found 1 on a pair that transfers over TCP"),
    ("vLLM half on Ascend", {"role": "decode", "kind": "Decode", "roleKinds": PAIR, "instanceType": ASCEND}, "kind", "found a vLLM Decode on Ascend cards"),
]  # fmt: skip


def wanted(fields: dict[str, Any]) -> dict[str, Any]:
    role, kind = fields.get("role", "server"), fields.get("kind", "Server")
    filled = {**fields}
    if filled.get("roleKinds") is None:
        filled["roleKinds"] = {role: kind}
    return filled


@pytest.mark.parametrize(
    ("fields", "path", "says"),
    [pytest.param(*row[1:], id=row[0]) for row in (*FIELDS, *RULES)],
)
def test_a_role_is_refused_at_its_path(fields: dict[str, Any], path: str, says: str) -> None:
    problems = role_problems(raw_role(**wanted(fields)), NOTHING)
    got = [problem.reason for problem in problems if problem.path == path]
    assert got, [str(problem) for problem in problems]
    assert says in " | ".join(got)
    for problem in problems:
        assert "; " in problem.reason, "the sentence says what to do next"


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("owned flag beside a command", {"command": ["x"], "extraArgs": ["--kv-transfer-config", "{}"]}),
    ("owned variable beside a command", {"command": ["x"], "env": [{"name": "MOONCAKE_CONFIG_PATH", "value": "x"}]}),
    ("SGLang's key on vLLM", {"env": [{"name": "MOONCAKE_MASTER", "value": "x"}]}),
    ("degrees beside a command", {"command": ["x"], "extraArgs": ["-tp", "two"]}),
    ("width that lives on other members", {"size": 2, "extraArgs": ["-tp", "16", "--nnodes", "2"]}),
    ("width on no cards", {"instanceType": CPU, "extraArgs": ["-tp", "4"]}),
    ("local share 0", {"extraArgs": ["-dpl", "0"]}),
    ("environment below the command line", {"resources": {"count": 2}, "extraArgs": ["-dp", "2"], "env": [{"name": "VLLM_DP_SIZE", "value": "9"}]}),
    ("environment by reference", {"env": [{"name": "VLLM_DP_SIZE", "secretRef": ["s", "k"]}]}),
    ("port in the environment of a command", {"command": ["x", "--port", "$(PORT)"]}),
    ("bootstrap port of a take-over prefiller", {"role": "prefill", "kind": "Prefill", "roleKinds": PAIR, "command": ["x"], "ports": [{"port": 8998}]}),
    ("same number, other protocol", {"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}),
    ("volume without a source", {"volumes": [{"mountPath": "/d"}]}),
    ("interface above size 1", {"size": 2, "interface": 1}),
    ("interface of a take-over role", {"command": ["x"], "interface": 4}),
    ("interface of an RDMA half", {"interface": 1, "role": "decode", "kind": "Decode", "roleKinds": PAIR, "kvTransfer": {"protocol": "RDMA"}}),
    ("SGLang half on Ascend", {"role": "decode", "kind": "Decode", "roleKinds": PAIR, "instanceType": ASCEND, "engine": {"name": "SGLang"}}),
    ("no topology level", {"topology": {}}),
    ("explicit no cards", {"resources": {"count": 0}}),
    ("all the pool's cards", {"instanceType": {**H200, "acceleratorCapacity": 8}, "resources": {"count": 8}}),
]  # fmt: skip


@pytest.mark.parametrize("fields", [pytest.param(row[1], id=row[0]) for row in ACCEPTED])
def test_what_looks_like_it_is_accepted(fields: dict[str, Any]) -> None:
    assert () == role_problems(raw_role(**fields), NOTHING)


DEPLOYMENTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("two roles of one name", raw_deployment(raw_entry(), raw_entry()), "roles[1].name", "found 'server' 2 times"),
    ("Server and half", raw_deployment(raw_entry(), raw_entry(name="p", kind="Prefill")), "roles[1].kind", "beside a Server"),
    ("two halves", raw_deployment(*raw_pair(kind="Prefill")), "roles[1].kind", "found a second Prefill"),
    ("too many", raw_deployment(*(raw_entry(name=f"s{i}") for i in range(11))), "roles", "found 11 roles"),
    ("none", raw_deployment(roles=[]), "roles", "needed at least 1 entry"),
    ("no list", raw_deployment(roles=7), "roles", "found 7, needed a list"),
    ("no entry", raw_deployment(roles=[7]), "roles[0]", "found 7, needed an object"),
    ("front is no role", raw_deployment(front="x"), "front", "found 'x', needed one of the roles server"),
    ("type without a name", raw_deployment(raw_entry(instanceType="h"), instanceTypes=[H200, 5, {"name": 1}]), "roles[0].instanceType", "found the name 'h', needed one of `instanceTypes` (h200)"),
    ("type where none is", raw_deployment(raw_entry(instanceType="h"), instanceTypes=7), "roles[0].instanceType", "(none)"),
    ("deployment's name", raw_deployment(name="a.b"), "name", "found Service name 'a.b'"),
    ("role's name", raw_deployment(raw_entry(name=LONG)), "roles[0].name", "(65 characters)"),
    ("field of a role", raw_deployment(raw_entry(image=None)), "roles[0].image", "found no image"),
    ("deployment's label", raw_deployment(pod={"labels": {"kueue.x-k8s.io/x": "1"}}), 'pod.labels["kueue.x-k8s.io/x"]', "which is written here"),
    ("role's label", raw_deployment(raw_entry(pod={"labels": {"kueue.x-k8s.io/x": "1"}})), 'roles[0].pod.labels["kueue.x-k8s.io/x"]', "which is written here"),
    ("none among shared cards", raw_deployment(raw_entry(resources={"count": 0}), raw_entry(name="b")), "roles[0].resources.count", "which another role shares"),
    ("lost node by force", raw_deployment(*raw_pair(), rollout={"lostNode": "Force"}), "rollout.lostNode", "found 'Force'"),
    ("a role's lost node by force", raw_deployment(raw_entry(rollout={"lostNode": "Force"})), "roles[0].rollout.lostNode", "found 'Force'"),
    ("both halves in slices", raw_deployment(raw_entry(name="p", kind="Prefill", instanceType=SLICED, resources={"memoryPercentage": 50}), raw_entry(name="d", kind="Decode", instanceType=SLICED, resources={"memoryPercentage": 50})), "roles[1].resources", "could land on one card"),
    ("unknown field of the deployment", raw_deployment(rols=[]), "rols", "did you mean roles?"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "path", "says"), [pytest.param(*row[1:], id=row[0]) for row in DEPLOYMENTS]
)
def test_a_deployment_is_refused_at_its_path(raw: dict[str, Any], path: str, says: str) -> None:
    problems = deployment_problems(raw)
    got = [problem.reason for problem in problems if problem.path == path]
    assert got, [str(problem) for problem in problems]
    assert says in " | ".join(got)
    with pytest.raises(InvalidSpec):
        parse_deployment(raw)


def test_a_fault_of_the_whole_deployment_is_said_once() -> None:
    raw = raw_deployment(*raw_pair(), pod={"labels": {"kueue.x-k8s.io/x": "1"}})
    assert 1 == len(deployment_problems(raw))


@pytest.mark.parametrize(
    "raw",
    [
        raw_deployment(raw_entry(resources={"count": 0}), raw_entry(name="b", instanceType=CPU)),
        raw_deployment(
            *raw_pair(instanceType={**SLICED, "acceleratorGroup": "nvidia-a10g"},
                      resources={"memoryPercentage": 50})
        ),
    ],
)  # fmt: skip
def test_what_only_looks_like_sharing_is_accepted(raw: dict[str, Any]) -> None:
    assert () == deployment_problems(raw)


def test_a_secret_is_never_quoted() -> None:
    secret = 123456789
    raws = [
        raw_role(env=[{"name": "A", "value": secret}]),
        raw_role(env=[{"name": "A", "value": True}]),
        raw_role(extraArgs=[secret]),
        raw_role(command=str(secret)),
        raw_role(env=[{"name": "VLLM_DP_SIZE", "value": f"{secret}x"}]),
    ]
    for raw in raws:
        with pytest.raises(InvalidSpec) as caught:
            parse_role(raw)
        assert str(secret) not in str(caught.value)
        assert "true" not in str(caught.value).replace("true or false", "")
