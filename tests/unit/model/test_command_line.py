import pytest

from gpustack_deploy.model.command_line import has_flag, last_value, read_options
from gpustack_deploy.model.role import EngineName

pytestmark = pytest.mark.check

VLLM, SGLANG = EngineName.VLLM, EngineName.SGLANG


@pytest.mark.parametrize(
    ("engine", "args", "want"),
    [
        (VLLM, ["--port", "9000"], [("--port", "9000", 0)]),
        (VLLM, ["--port=9000"], [("--port", "9000", 0)]),
        (VLLM, ["--max-num-seqs", "8", "--port", "9000"], [("--port", "9000", 2)]),
        (VLLM, ["--port"], [("--port", None, 0)]),
        (VLLM, ["--port", "--host", "x"], [("--port", None, 0), ("--host", "x", 1)]),
        (VLLM, ["--", "--port", "9000"], []),
        (VLLM, ["serve", "port"], []),
        (VLLM, ["--tensor_parallel_size", "2"], [("--tensor-parallel-size", "2", 0)]),
        (VLLM, ["--tensor-paral=2"], [("--tensor-parallel-size", "2", 0)]),
        (VLLM, ["-tp", "2"], [("--tensor-parallel-size", "2", 0)]),
        (VLLM, ["-tp", "-2"], [("--tensor-parallel-size", "-2", 0)]),
        (VLLM, ["-n2"], [("--nnodes", "2", 0)]),
        (VLLM, ["-nope"], []),
        (VLLM, ["--t"], []),
        (VLLM, ["--data-parallel-size", "2"], [("--data-parallel-size", "2", 0)]),
        (VLLM, ["--data-parallel-size-l", "2"], [("--data-parallel-size-local", "2", 0)]),
        (VLLM, ["-dpe", "2"], [("--data-parallel-external-lb", None, 0)]),
        (VLLM, ["--kv-transfer-conf", "{}"], [("--kv-transfer-config", "{}", 0)]),
        (VLLM, ["--kv_transfer_config={}"], [("--kv-transfer-config", "{}", 0)]),
        (VLLM, ["--kv-transfer-config.kv_role", "x"], [("--kv-transfer-config", "x", 0)]),
        (VLLM, ["--kv-cache-dtype", "fp8"], []),
        (SGLANG, ["--tp", "2"], [("--tp-size", "2", 0)]),
        (SGLANG, ["--tp_size", "2"], []),
        (SGLANG, ["--disaggregation-mo", "x"], [("--disaggregation-mode", "x", 0)]),
        (SGLANG, ["--hicache-storage-backend", "x"], [("--hicache-storage-backend", "x", 0)]),
        (
            SGLANG,
            ["--hicache-storage-backend-extra", "x"],
            [("--hicache-storage-backend-extra-config", "x", 0)],
        ),
        (SGLANG, ["--kv-transfer-config", "{}"], []),
    ],
)
def test_a_command_line_is_read_as_its_engine_reads_it(
    engine: EngineName, args: list[str], want: list[tuple[str, str | None, int]]
) -> None:
    got = [(each.flag.name, each.value, each.position) for each in read_options(engine, args)]
    assert want == got


def test_the_last_of_a_repeated_flag_wins() -> None:
    options = read_options(VLLM, ["--port", "1", "--port", "2"])
    assert "2" == last_value(options, "--port")
    assert None is last_value(options, "--host")
    assert has_flag(options, "--host", "--port")
    assert not has_flag(options, "--host")
