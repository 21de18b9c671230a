"""A declaration that cannot be: refused with the property's path before anything is asked."""

from collections.abc import Iterator
from typing import Any

import pytest

import pulumi_gpustack as gpustack
from gpustack_deploy.model.errors import InvalidSpec
from gpustack_deploy.model.spec import parse_deployment, role_problems
from pulumi_gpustack.role_provider import RoleProvider
from tests.bad_input.sentence import assert_sentence, unwritten
from tests.declarations import raw_deployment, raw_entry, raw_pair
from tests.fakes import MemoryCluster
from tests.pulumi.declarations import pair, role
from tests.pulumi_program import Engine, mocked_engine, run

pytestmark = pytest.mark.check

Properties = dict[str, Any]

KNOWN: frozenset[str] = frozenset()
MIXED = {"server": "Server", "prefill": "Prefill"}
FIELD = "there is no such field"
NUMBER = "needed a whole number"
KINDS = "needed one of 'Server', 'Prefill' or 'Decode'"
ALONE = "needed Servers only, or one Prefill and one Decode"

# What one role's resource is given, the property that is named, and what is said of it.
ROLES = [
    pytest.param(
        role(replica=2.0), "replica", (FIELD, "did you mean replicas?"), id="unknown field"
    ),
    pytest.param(
        role(resources={"cards": 2.0}),
        "resources.cards",
        (FIELD, "remove it", "fields here"),
        id="unknown field in a block",
    ),
    pytest.param(
        role(replicas="two"),
        "replicas",
        ("found 'two'", NUMBER, "change it"),
        id="text for a number",
    ),
    pytest.param(
        role(image=11.0), "image", ("found 11", "needed text", "quote it"), id="number for text"
    ),
    pytest.param(
        role(env="A=1"), "env", ("found text", "needed a list", "change it"), id="text for a list"
    ),
    pytest.param(
        role(kind="Router", roleKinds={"server": "Router"}),
        "kind",
        ("found 'Router'", KINDS, "change it"),
        id="unknown role kind",
    ),
    pytest.param(
        pair("prefill", roleKinds=MIXED),
        "roleKinds.prefill",
        ("found kind Prefill beside a Server", ALONE, "declare two deployments"),
        id="Server mixed with Prefill",
    ),
    pytest.param(
        role(deployment="c" * 64),
        "deployment",
        ("(64 characters)", "at most 63", "rename the deployment"),
        id="deployment's name too long",
    ),
    pytest.param(
        role(deployment="c" * 60),
        "role",
        ("(67 characters)", "at most 63", "shorten or rename the deployment or the role"),
        id="Service's name too long",
    ),
    pytest.param(
        role(deployment="c" * 52, replicas=12.0, size=12.0),
        "role",
        ("(67 characters)", "a hostname of at most 63", "shorten the role's name"),
        id="member's name too long",
    ),
    pytest.param(
        role(deployment="chat.eu"),
        "deployment",
        ("'chat.eu'", "has no dots", "rename the deployment"),
        id="dots in a name",
    ),
]


@pytest.mark.parametrize(("inputs", "path", "parts"), ROLES)
@pytest.mark.parametrize("stands", [False, True], ids=["new", "standing"])
def test_a_role_is_refused_by_check_with_the_property(
    cluster: MemoryCluster,
    provider: RoleProvider,
    inputs: Properties,
    path: str,
    parts: tuple[str, ...],
    stands: bool,
) -> None:
    olds = dict(provider.check({}, role()).inputs) if stands else {}
    with unwritten(cluster):
        failures = provider.check(olds, inputs).failures
    reasons = [each.reason for each in failures if each.property == path]
    assert reasons, [each.property for each in failures]
    assert_sentence(reasons[0], *parts)
    for each in failures:
        assert_sentence(each.reason, ";")


@pytest.mark.parametrize(("inputs", "path", "parts"), ROLES)
def test_a_role_is_refused_by_the_model_alike(
    inputs: Properties, path: str, parts: tuple[str, ...]
) -> None:
    declared = {key: value for key, value in inputs.items() if key != "__provider"}
    found = {each.path: each.reason for each in reversed(role_problems(declared, KNOWN))}
    assert_sentence(found[path], *parts)


@pytest.mark.parametrize(
    ("raw", "path", "parts"),
    [
        pytest.param(
            raw_deployment(raw_entry(replica=2)),
            "roles[0].replica",
            (FIELD, "did you mean replicas?"),
            id="unknown field",
        ),
        pytest.param(
            raw_deployment(replicas=2),
            "replicas",
            (FIELD, "remove it"),
            id="unknown field of the deployment",
        ),
        pytest.param(
            raw_deployment(raw_entry(size="two")),
            "roles[0].size",
            ("found 'two'", NUMBER, "change it"),
            id="wrong type",
        ),
        pytest.param(
            raw_deployment(raw_entry(kind="Router")),
            "roles[0].kind",
            ("found 'Router'", KINDS, "change it"),
            id="unknown role kind",
        ),
        pytest.param(
            raw_deployment(raw_entry(), *raw_pair()),
            "roles[1].kind",
            ("found kind Prefill beside a Server", ALONE, "declare two deployments"),
            id="Server mixed with Prefill",
        ),
        pytest.param(
            raw_deployment(raw_entry(), raw_entry()),
            "roles[0].name",
            ("found 'server' 2 times", "needed each name once", "rename one"),
            id="two roles of one name",
        ),
        pytest.param(
            raw_deployment(name="c" * 64),
            "name",
            ("(64 characters)", "at most 63", "rename the deployment"),
            id="name too long",
        ),
        pytest.param(
            raw_deployment(raw_entry(name="r" * 59)),
            "roles[0].name",
            ("(64 characters)", "at most 63", "shorten or rename"),
            id="role's name too long",
        ),
    ],
)
def test_a_deployment_in_a_file_is_refused(
    raw: Properties, path: str, parts: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_deployment(raw)
    assert path == refused.value.path
    assert_sentence(str(refused.value), path, *parts)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    with mocked_engine(monkeypatch) as made:
        yield made


@pytest.mark.parametrize(
    ("roles", "parts"),
    [
        pytest.param(
            ["server", "server"],
            ("roles[1].name", "two roles 'server'", "needed each name once", "rename one"),
            id="two of one name",
        ),
        pytest.param([], ("roles", "there is none", "needed 1 to 10", "declare one"), id="none"),
        pytest.param(
            [""], ("roles[0].name", "found ''", "needed a name", "write one"), id="no name"
        ),
    ],
)
def test_roles_that_no_resource_can_be_made_of_are_refused_by_the_program(
    engine: Engine, roles: list[str], parts: tuple[str, ...]
) -> None:
    refused: list[InvalidSpec] = []

    def program() -> None:
        try:
            gpustack.ModelDeployment(
                "chat",
                model="Qwen/Qwen3-32B",
                engine=gpustack.Engine(name="vLLM", version="0.11.0"),
                roles=[{"name": name, "instance_type": "h200"} for name in roles],
            )
        except InvalidSpec as error:
            refused.append(error)

    run(program)
    assert_sentence(str(refused[0]), *parts)
    assert [] == engine.roles


@pytest.mark.parametrize("env", ["TOKEN=hf-secret", ["TOKEN=hf-secret"], {"TOKEN": "hf-secret"}])
def test_a_variable_written_in_another_way_is_refused_without_its_text(
    cluster: MemoryCluster, provider: RoleProvider, env: object
) -> None:
    [failure] = provider.check({}, role(env=env)).failures
    assert failure.property.startswith("env")
    assert_sentence(failure.reason, "found ", "needed ", "change it")
    assert "secret" not in failure.reason
