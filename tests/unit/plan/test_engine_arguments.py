import json
from typing import Any

import pytest

from gpustack_deploy.plan.engine_arguments import engine_arguments
from tests.declarations import role

pytestmark = pytest.mark.check

PAIR = {"prefill": "Prefill", "decode": "Decode"}
PREFILL = {"role": "prefill", "kind": "Prefill", "roleKinds": PAIR}
DECODE = {"role": "decode", "kind": "Decode", "roleKinds": PAIR}
SGLANG = {"engine": {"name": "SGLang", "version": "0.5.18"}}
BIND = ("--host", "0.0.0.0", "--port", "8000")
SGLANG_BASE = (
    *("python3", "-m", "sglang.launch_server"),
    *("--model-path", "Qwen/Qwen3-32B", "--enable-metrics"),
)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({}, ("vllm", "serve", "Qwen/Qwen3-32B", *BIND)),
        (
            {"extraArgs": ["--max-model-len", "4096"]},
            ("vllm", "serve", "Qwen/Qwen3-32B", "--max-model-len", "4096", *BIND),
        ),
        (
            {"ports": [{"port": 9000}]},
            ("vllm", "serve", "Qwen/Qwen3-32B", "--host", "0.0.0.0", "--port", "9000"),
        ),
        (
            {"extraArgs": ["--host=::", "--port=9000"]},
            ("vllm", "serve", "Qwen/Qwen3-32B", "--host=::", "--port=9000"),
        ),
        (
            {"extraArgs": ["--port", "9000"]},
            ("vllm", "serve", "Qwen/Qwen3-32B", "--port", "9000", "--host", "0.0.0.0"),
        ),
        (SGLANG, (*SGLANG_BASE, *BIND)),
        (
            {**SGLANG, **PREFILL},
            (
                *SGLANG_BASE,
                *("--disaggregation-mode", "prefill"),
                *("--disaggregation-transfer-backend", "mooncake_tcp"),
                *("--disaggregation-bootstrap-port", "8998"),
                *BIND,
            ),
        ),
        (
            {**SGLANG, **DECODE, "kvTransfer": {"protocol": "RDMA"}},
            (
                *SGLANG_BASE,
                *("--disaggregation-mode", "decode"),
                *("--disaggregation-transfer-backend", "mooncake"),
                *BIND,
            ),
        ),
    ],
)
def test_the_command_line_is_base_transfer_extras_and_address(
    fields: dict[str, Any], want: tuple[str, ...]
) -> None:
    assert want == engine_arguments(role(**fields)).command


def test_no_parallel_degree_is_composed_from_size_and_cards() -> None:
    command = engine_arguments(role(size=2, resources={"count": 8})).command
    assert ("vllm", "serve", "Qwen/Qwen3-32B", *BIND) == command


@pytest.mark.parametrize(
    ("protocol", "want"),
    [
        (None, "tcp"),
        ("Auto", "tcp"),
        ("TCP", "tcp"),
        ("RDMA", "rdma"),
        ("EFA", "efa"),
        ("CANN", "ascend"),
        ("ROCM", "hip"),
    ],
)
@pytest.mark.parametrize(("half", "kv_role"), [(PREFILL, "kv_producer"), (DECODE, "kv_consumer")])
def test_a_half_of_a_vllm_pair_gets_its_connector(
    half: dict[str, Any], kv_role: str, protocol: str | None, want: str
) -> None:
    transfer = None if protocol is None else {"protocol": protocol}
    arguments = engine_arguments(role(**half, kvTransfer=transfer))
    flag, document, *rest = arguments.command[3:]
    assert ("--kv-transfer-config", list(BIND)) == (flag, rest)
    assert {
        "kv_connector": "MooncakeConnector",
        "kv_role": kv_role,
        "kv_connector_extra_config": {"mooncake_protocol": want},
    } == json.loads(document)
    assert (want == "tcp") == (("MC_FORCE_TCP", "1") in arguments.default_env)


def test_an_empty_transfer_block_means_tcp() -> None:
    assert engine_arguments(role(**DECODE)) == engine_arguments(role(**DECODE, kvTransfer={}))


@pytest.mark.parametrize(
    ("fields", "owned", "defaults"),
    [
        ({}, (), ()),
        (
            PREFILL,
            (("VLLM_MOONCAKE_BOOTSTRAP_PORT", "8998"),),
            (("MC_TE_METRIC", "1"), ("MC_FORCE_TCP", "1")),
        ),
        (DECODE, (), (("MC_TE_METRIC", "1"), ("MC_FORCE_TCP", "1"))),
        ({**DECODE, "kvTransfer": {"protocol": "RDMA"}}, (), (("MC_TE_METRIC", "1"),)),
        ({**PREFILL, **SGLANG}, (), (("MC_TE_METRIC", "1"),)),
    ],
)
def test_the_environment_of_a_pair(
    fields: dict[str, Any], owned: tuple[Any, ...], defaults: tuple[Any, ...]
) -> None:
    arguments = engine_arguments(role(**fields))
    assert (owned, defaults) == (arguments.owned_env, arguments.default_env)
