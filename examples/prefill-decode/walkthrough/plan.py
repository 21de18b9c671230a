"""The plan of all edits, before anything is built: the planner that every run asks, simulated.

The program beside this package runs under Pulumi's mocks, so what is planned is what it declares.
"""

import json
import runpy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi

from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.spec import parse_role
from gpustack_deploy.plan.desired_role import desired_of
from gpustack_deploy.plan.simulate import World, simulate
from gpustack_deploy.plan.step import Compose, Hold, Remove, RemoveWorkload, Step
from walkthrough.edits import EDITS, Settings, settings_after
from walkthrough.pulumi_cli import PROJECT, STACK

PROGRAM = Path(__file__).resolve().parents[1] / "__main__.py"
_ROLE_TYPE = "gpustack:ModelDeploymentRole"
# Outputs of the resource, which a program passes as empty inputs.
_READ = ("endpoint", "fingerprint", "frontRole", "podSelector", "serviceName", "servicePort")
_DECLARED = frozenset({field.alias or name for name, field in RoleDeclaration.model_fields.items()})


def planned_lines(quotas: Mapping[str, int]) -> Iterator[str]:
    """What each edit will do, in order; `quotas` are the cards of each LocalQueue."""
    worlds: dict[str, World] = {}
    for count, edit in enumerate(EDITS, start=1):
        yield f"{edit.number:>2}  {edit.title}"
        for role, declaration in declarations(settings_after(count)).items():
            cards = declaration.geometry.count
            world = replace(
                worlds.get(role, World()),
                cost=cards,
                capacity=quotas.get(declaration.instance_type.local_queue),
            )
            steps, worlds[role] = simulate(desired_of(declaration), world)
            told = list(_told(steps, cards=cards, queue=declaration.instance_type.local_queue))
            yield from (f"      {role:<8} {line}" for line in told or ["no change"])


def declarations(settings: Settings) -> dict[str, RoleDeclaration]:
    """What the program declares with these settings, by role."""
    recorder = _Recorder()
    pulumi.runtime.set_mocks(recorder, project=PROJECT, stack=STACK)
    pulumi.runtime.set_all_config(
        {f"{PROJECT}:{role}": json.dumps(chosen) for role, chosen in settings.items()}
    )
    pulumi.runtime.test(runpy.run_path)(str(PROGRAM))  # type: ignore[no-untyped-call]
    return {role: recorder.declared[role] for role in settings}


class _Recorder(pulumi.runtime.Mocks):
    """Takes every resource as it is declared, and keeps the roles."""

    def __init__(self) -> None:
        self.declared: dict[str, RoleDeclaration] = {}

    def new_resource(
        self, args: pulumi.runtime.MockResourceArgs
    ) -> tuple[str | None, dict[str, Any]]:
        if args.typ.endswith(_ROLE_TYPE):
            inputs = {
                key: value
                for key, value in args.inputs.items()
                if key in _DECLARED and value is not None
            }
            declaration = parse_role(inputs)
            self.declared[declaration.role] = declaration
        return args.name, {**dict.fromkeys(_READ, ""), **args.inputs}

    def call(
        self,
        args: pulumi.runtime.MockCallArgs,  # noqa: ARG002 - nothing is called
    ) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        return {}, None


def _told(steps: Sequence[Step], *, cards: int, queue: str) -> Iterator[str]:
    """One line a replica, in the order in which they go: what is removed and what is created."""
    told: dict[int, list[str]] = {}
    for step in steps:
        match step:
            case Remove(ordinal=ordinal, members=members):
                told.setdefault(ordinal, []).append(f"remove {_count(len(members), 'member')}")
            case RemoveWorkload(ordinal=ordinal):
                told.setdefault(ordinal, []).append("remove the Workload")
            case Compose(seats=seats):
                for ordinal in sorted({seat.ordinal for seat in seats}):
                    size = sum(seat.ordinal == ordinal for seat in seats)
                    created = f"create {_count(size, 'member')} of {_count(cards, 'GPU')}"
                    told.setdefault(ordinal, []).append(f"{created}, admitted anew by {queue}")
            case Hold(check=check):
                told.setdefault(check.ordinal or 0, []).append(f"held: {check.reason}")
            case _:
                pass
    for ordinal, actions in told.items():
        yield f"r{ordinal}: {'; '.join(actions)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
