from typing import Any

import pytest

from gpustack_deploy.plan.template import render_template
from tests.declarations import role

pytestmark = pytest.mark.check

PAIR = {"prefill": "Prefill", "decode": "Decode"}
PREFILL = {"role": "prefill", "kind": "Prefill", "roleKinds": PAIR}


def environment(**fields: Any) -> list[tuple[str, str]]:
    (main,) = render_template(role(**fields))["spec"]["containers"]
    return [(entry["name"], entry.get("value", "")) for entry in main.get("env", [])]


def test_a_default_gives_way_to_the_roles_own_value() -> None:
    own = [{"name": "MC_TE_METRIC", "value": "0"}]
    assert [
        ("VLLM_MOONCAKE_BOOTSTRAP_PORT", "8998"),
        ("MC_FORCE_TCP", "1"),
        ("MC_TE_METRIC", "0"),
    ] == environment(**PREFILL, env=own)


def test_the_seat_comes_first_so_that_later_values_can_refer_to_it() -> None:
    own = [{"name": "RANK", "value": "$(GPUSTACK_MEMBER_INDEX)"}]
    names = [name for name, _ in environment(size=2, env=own)]
    assert ["GPUSTACK_REPLICA_LEADER_ADDRESS", "GPUSTACK_REPLICA_SIZE"] == names[:2]
    assert ["GPUSTACK_MEMBER_INDEX", "RANK"] == names[2:]


def test_a_take_over_half_gets_no_transfer_environment() -> None:
    assert [] == environment(**PREFILL, command=["x"])
