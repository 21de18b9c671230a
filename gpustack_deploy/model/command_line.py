"""Reading an engine's command line as its own parser would: owned flags, listener, degrees.

Both engines parse with argparse: `--flag value` and `--flag=value`, the last one wins, a unique
prefix of a long flag is that flag, and `--` ends the flags. vLLM also takes underscores for dashes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpustack_deploy.model.role import EngineName


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: its name, other registered spellings, and the shortest prefix the engine accepts.

    `is_owned` flags are written here for a managed role; `moves_members` flags say that some of the
    declared width lives on other members.
    """

    name: str
    spellings: tuple[str, ...] = ()
    shortest: str = ""
    takes_value: bool = True
    is_owned: bool = False
    moves_members: bool = False

    def matches(self, key: str) -> bool:
        """Whether the engine reads that key as this flag."""
        is_prefix = bool(self.shortest) and key.startswith(self.shortest)
        return key in (self.name, *self.spellings) or (is_prefix and self.name.startswith(key))


class Option(NamedTuple):
    """One known flag of a command line and where it stands; the value is None when none follows."""

    flag: Flag
    value: str | None
    position: int


_LISTENER: Final = (
    Flag("--host"),
    Flag("--port"),
    Flag("--ssl-certfile"),
    Flag("--ssl-keyfile"),
    Flag("--ssl-cert-reqs"),
)

_FLAGS: Final[dict[EngineName, tuple[Flag, ...]]] = {
    EngineName.VLLM: (
        *_LISTENER,
        Flag("--kv-transfer-config", shortest="--kv-t", is_owned=True),
        Flag("--kv-events-config", shortest="--kv-e", is_owned=True),
        Flag("--tensor-parallel-size", ("-tp", "-t"), "--tensor-p"),
        Flag("--pipeline-parallel-size", ("-pp",), "--pipeline-p"),
        Flag("--data-parallel-size", ("-dp",)),
        Flag("--data-parallel-size-local", ("-dpl",), "--data-parallel-size-"),
        Flag("--prefill-context-parallel-size", ("-pcp", "-pc"), "--prefill-c"),
        Flag("--nnodes", ("-n",), "--nn", moves_members=True),
        Flag("--node-rank", ("-r",), "--node", moves_members=True),
        Flag("--master-addr", (), "--master-a", moves_members=True),
        Flag("--master-port", (), "--master-p", moves_members=True),
        Flag("--data-parallel-rank", ("-dpn",), "--data-parallel-ra", moves_members=True),
        Flag("--data-parallel-start-rank", ("-dpr",), "--data-parallel-st", moves_members=True),
        Flag("--data-parallel-address", ("-dpa",), "--data-parallel-a", moves_members=True),
        Flag("--data-parallel-rpc-port", ("-dpp",), "--data-parallel-rp", moves_members=True),
        Flag("--data-parallel-backend", ("-dpb",), "--data-parallel-b", moves_members=True),
        Flag(
            "--data-parallel-hybrid-lb",
            ("-dph",),
            "--data-parallel-h",
            takes_value=False,
            moves_members=True,
        ),
        Flag(
            "--data-parallel-external-lb",
            ("-dpe",),
            "--data-parallel-e",
            takes_value=False,
            moves_members=True,
        ),
    ),
    EngineName.SGLANG: (
        *_LISTENER,
        Flag("--hicache-storage-backend", is_owned=True),
        Flag(
            "--hicache-storage-backend-extra-config",
            shortest="--hicache-storage-backend-",
            is_owned=True,
        ),
        Flag("--disaggregation-mode", shortest="--disaggregation-m", is_owned=True),
        Flag("--disaggregation-transfer-backend", shortest="--disaggregation-t", is_owned=True),
        Flag("--disaggregation-bootstrap-port", shortest="--disaggregation-b", is_owned=True),
        Flag("--tp-size", ("--tensor-parallel-size", "--tp"), "--tp-"),
        Flag("--pp-size", ("--pipeline-parallel-size", "--pp"), "--pp-"),
        Flag("--dp-size", ("--data-parallel-size", "--dp"), "--dp-"),
        Flag("--enable-dp-attention", takes_value=False),
        Flag("--nnodes", (), "--nn", moves_members=True),
        Flag("--node-rank", (), "--node", moves_members=True),
        Flag("--dist-init-addr", ("--nccl-init-addr",), "--dist-init", moves_members=True),
    ),
}

# What a user may not set in a managed role's environment, beside the reserved names.
OWNED_ENV: Final[dict[EngineName, frozenset[str]]] = {
    EngineName.VLLM: frozenset({"MOONCAKE_CONFIG_PATH", "VLLM_MOONCAKE_BOOTSTRAP_PORT"}),
    EngineName.SGLANG: frozenset(
        {
            "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH",
            "MOONCAKE_MASTER",
            "MOONCAKE_TE_META_DATA_SERVER",
            "MOONCAKE_PROTOCOL",
            "MOONCAKE_DEVICE",
            "MOONCAKE_GLOBAL_SEGMENT_SIZE",
            "MOONCAKE_LOCAL_HOSTNAME",
            "MOONCAKE_TENANT_ID",
        }
    ),
}

DEGREES: Final[dict[EngineName, tuple[str, ...]]] = {
    EngineName.VLLM: (
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--data-parallel-size",
        "--data-parallel-size-local",
        "--prefill-context-parallel-size",
    ),
    EngineName.SGLANG: ("--tp-size", "--pp-size", "--dp-size"),
}


def read_options(engine: EngineName, args: Sequence[str]) -> tuple[Option, ...]:
    """Return the known flags of the command line with their values, in order."""
    return tuple(_walk(engine, args))


def last_value(options: Sequence[Option], name: str) -> str | None:
    """Return the value of the last occurrence of the flag, None when it is absent or bare."""
    found = [option.value for option in options if option.flag.name == name]
    return found[-1] if found else None


def has_flag(options: Sequence[Option], *names: str) -> bool:
    """Whether one of the flags occurs."""
    return any(option.flag.name in names for option in options)


def _walk(engine: EngineName, args: Sequence[str]) -> Iterator[Option]:
    position = 0
    while position < len(args) and args[position] != "--":
        start = position
        token = args[position]
        position += 1
        flag, value = _match(engine, token)
        if flag is None:
            continue
        if flag.takes_value and value is None and position < len(args):
            follower = args[position]
            if not follower.startswith("-") or follower[1:].isdigit():
                value = follower
                position += 1
        yield Option(flag, value, start)


def _match(engine: EngineName, token: str) -> tuple[Flag | None, str | None]:
    key, equals, glued = token.partition("=")
    if not key.startswith("-"):
        return None, None
    if engine is EngineName.VLLM and key.startswith("--"):
        key = key.replace("_", "-")
    value = glued if equals else None
    for flag in _FLAGS[engine]:
        # A dotted key sets one member of a document and so replaces the whole document.
        if flag.matches(key) or (flag.is_owned and flag.matches(key.partition(".")[0])):
            return flag, value
    for flag in _FLAGS[engine]:
        # A single-letter flag takes its value glued on: -n2.
        if (
            not equals
            and not key.startswith("--")
            and key[:2] in flag.spellings
            and key[2:].isdigit()
        ):
            return flag, key[2:]
    return None, None
