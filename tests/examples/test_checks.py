"""The walk-through's verification notices what is wrong: each check on facts made to break it."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from walkthrough.checks import OF_A_REPLACEMENT, OF_AN_EDIT, OF_ANY_STEP, Situation, verify
from walkthrough.edits import ExpectedRole
from walkthrough.facts import Facts, Json, Member, Service, Workload, quantity
from walkthrough.table import table
from walkthrough.watch import Look, Watched

pytestmark = pytest.mark.check

REQUESTS = {"nvidia.com/gpu": Fraction(2), "cpu": Fraction(16, 10)}
RECORD: Json = {"slot": None, "departures": [], "batch": None, "lock": {"holder": ""}}


def member(role: str, ordinal: int, index: int, run: str) -> Member:
    name = f"chat-{role}-r{ordinal}-m{index}"
    return Member(
        role=role,
        ordinal=ordinal,
        index=index,
        name=name,
        uid=f"{name}.{run}",
        group=f"chat-{role}-{ordinal}-{run}",
        queue="h200",
        is_ready=True,
        is_gated=False,
        is_leaving=False,
        requests=REQUESTS,
    )


def workload(members: tuple[Member, ...]) -> Workload:
    first = members[0]
    return Workload(
        name=first.group,
        uid=f"workload.{first.group}",
        owners=frozenset(("Pod", each.uid) for each in members),
        queue="h200",
        is_admitted=True,
        cluster_queue="h200",
        pod_sets=((first.role, len(members), REQUESTS),),
        usage={key: len(members) * amount for key, amount in REQUESTS.items()},
    )


def service(name: str, role: str, kind: str) -> Service:
    is_peer = kind == "peer"
    address = "None" if is_peer else "10.0.0.1"
    return Service(name, f"service.{name}", address, role, kind, {}, publishes_not_ready=is_peer)


def facts(decode: str, *, prefill: str = "a") -> Facts:
    """Prefill 1 x 1 and decode 2 x 2; the letters say which run made them."""
    replicas = [
        (member("prefill", 0, 0, prefill),),
        *((member("decode", at, 0, decode), member("decode", at, 1, decode)) for at in (0, 1)),
    ]
    services = [
        service("chat", "prefill", "front"),
        service("chat-prefill", "prefill", "role"),
        service("chat-decode", "decode", "role"),
        service("chat-decode-r0", "decode", "peer"),
        service("chat-decode-r1", "decode", "peer"),
    ]
    return Facts(
        members=tuple(each for members in replicas for each in members),
        workloads={members[0].group: workload(members) for members in replicas},
        services={each.name: each for each in services},
        records={f"chat-{role}": (f"record.{role}", RECORD) for role in ("prefill", "decode")},
        versions={},
    )


def pod(role: str, ordinal: int, index: int, *, group: str = "a", is_ready: bool = True) -> Json:
    labels = {
        "app.kubernetes.io/component": role,
        "modeldeployment.gpustack.ai/pod-ordinal": str(ordinal),
        "kueue.x-k8s.io/pod-group-name": group,
    }
    total = "1" if role == "prefill" else "2"
    return {
        "metadata": {
            "name": f"{role}-{ordinal}-{index}",
            "labels": labels,
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": total},
        },
        "status": {"conditions": [{"type": "Ready", "status": str(is_ready)}]},
    }


def pods(*down: tuple[str, int], without: tuple[tuple[str, int], ...] = ()) -> tuple[Json, ...]:
    replicas = [("prefill", 0, 0), *(("decode", at, i) for at in (0, 1) for i in (0, 1))]
    return tuple(
        pod(role, ordinal, index, is_ready=(role, ordinal) not in down)
        for role, ordinal, index in replicas
        if (role, ordinal) not in without
    )


def look(*seen: Json, services: dict[str, str] | None = None) -> Look:
    uids = {name: each.uid for name, each in facts("a").services.items()}
    return Look(uids if services is None else services, seen)


GOOD = Situation(
    before=facts("a"),
    after=facts("b"),
    watched=Watched(
        [look(*pods()), look(*pods(("decode", 1))), look(*pods(without=(("decode", 0),)))],
        usage={"h200": {"cpu": Fraction(1)}},
        summed={"h200": {"cpu": Fraction(1)}},
    ),
    expected={
        "prefill": ExpectedRole(replicas=1, size=1, gpus=2, queue="h200"),
        "decode": ExpectedRole(replicas=2, size=2, gpus=2, queue="h200"),
    },
    deployment="chat",
    replaced="decode",
)


def after(change: Callable[[Facts], Facts]) -> Situation:
    return replace(GOOD, after=change(GOOD.after))


def with_member(**changes: Any) -> Situation:
    """The last member of decode is another than it should be."""

    def change(good: Facts) -> Facts:
        *others, last = good.members
        return replace(good, members=(*others, replace(last, **changes)))

    return after(change)


def with_workload(**changes: Any) -> Situation:
    def change(good: Facts) -> Facts:
        name = good.members[-1].group
        return replace(
            good, workloads={**good.workloads, name: replace(good.workloads[name], **changes)}
        )

    return after(change)


def with_service(name: str, **changes: Any) -> Situation:
    def change(good: Facts) -> Facts:
        return replace(
            good, services={**good.services, name: replace(good.services[name], **changes)}
        )

    return after(change)


def without_service(name: str) -> Situation:
    return after(
        lambda good: replace(
            good, services={key: each for key, each in good.services.items() if key != name}
        )
    )


def with_record(uid: str = "record.decode", **changes: Any) -> Situation:
    return after(
        lambda good: replace(
            good, records={**good.records, "chat-decode": (uid, {**RECORD, **changes})}
        )
    )


def watched(*looks: Look, **changes: Any) -> Situation:
    return replace(GOOD, watched=replace(GOOD.watched, looks=list(looks), **changes))


MEMBERS = "every declared member serves, and no other"
WORKLOADS = "one admitted Workload a replica, owned by exactly its members"
POD_SETS = "PodSet name, count and requests"
SLOT = "no open slot, no lock"
SERVICES = "Services of deployment and roles, peer Services as the size asks"
IDENTITIES = "record UIDs, Service UIDs and ClusterIPs kept"
PEERS = "peer Services the same before, during and after"
SIBLINGS = "siblings untouched: Pods, Workloads, Services"
MIXED = "no replica of two shapes at any look"
FRESH = "fresh Pod and Workload UIDs"
ONE = "one replica at a time"

BROKEN = {
    "a member is not Ready": (MEMBERS, with_member(is_ready=False)),
    "a member is gated": (MEMBERS, with_member(is_gated=True)),
    "a member is leaving": (MEMBERS, with_member(is_leaving=True)),
    "a member has another name": (MEMBERS, with_member(name="chat-decode-r2-m0")),
    "a member in another group": (WORKLOADS, with_member(group="other")),
    "a Workload is not admitted": (WORKLOADS, with_workload(is_admitted=False)),
    "a Workload has no admission": (WORKLOADS, with_workload(cluster_queue="")),
    "a Workload owned by one only": (
        WORKLOADS,
        with_workload(owners=frozenset({("Pod", "chat-decode-r1-m0.b")})),
    ),
    "a Workload of nobody": (
        WORKLOADS,
        after(
            lambda good: replace(
                good,
                workloads={**good.workloads, "old": next(iter(good.workloads.values()))},
            )
        ),
    ),
    "a PodSet of another name": (POD_SETS, with_workload(pod_sets=(("main", 2, REQUESTS),))),
    "a PodSet of one": (POD_SETS, with_workload(pod_sets=(("decode", 1, REQUESTS),))),
    "a PodSet with other cards": (
        POD_SETS,
        with_workload(pod_sets=(("decode", 2, {**REQUESTS, "nvidia.com/gpu": Fraction(1)}),)),
    ),
    "a member that requests more": (
        POD_SETS,
        with_member(requests={**REQUESTS, "cpu": Fraction(9)}),
    ),
    "an admission of fewer cards": (
        POD_SETS,
        with_workload(usage={"nvidia.com/gpu": Fraction(2)}),
    ),
    "a member in another queue": ("queue", with_member(queue="a100")),
    "a Workload in another queue": ("queue", with_workload(queue="a100")),
    "an open slot": (SLOT, with_record(slot={"ordinal": 0})),
    "an open batch": (SLOT, with_record(batch={"token": "t"})),
    "a lock that is held": (SLOT, with_record(lock={"holder": "somebody"})),
    "no front Service": (SERVICES, without_service("chat")),
    "no peer Service": (SERVICES, without_service("chat-decode-r1")),
    "a peer Service too many": (
        SERVICES,
        after(
            lambda good: replace(
                good,
                services={
                    **good.services,
                    "chat-prefill-r0": service("chat-prefill-r0", "prefill", "peer"),
                },
            )
        ),
    ),
    "a peer Service with an address": (
        SERVICES,
        with_service("chat-decode-r0", cluster_ip="10.0.0.7"),
    ),
    "another record": (IDENTITIES, with_record(uid="another")),
    "another Service": (IDENTITIES, with_service("chat-decode", uid="another")),
    "another address": (IDENTITIES, with_service("chat", cluster_ip="10.0.0.9")),
    "a peer Service made anew": (PEERS, with_service("chat-decode-r0", uid="another")),
    "a peer Service missing on the way": (
        PEERS,
        watched(look(*pods()), look(*pods(), services={})),
    ),
    "a sibling restarted": (SIBLINGS, replace(GOOD, after=facts("b", prefill="c"))),
    "a sibling down on the way": (SIBLINGS, watched(look(*pods(("prefill", 0))))),
    "an old member stands": (FRESH, replace(GOOD, after=facts("a"))),
    "both replicas down at once": (ONE, watched(look(*pods(("decode", 0), ("decode", 1))))),
    "both replicas gone at once": (
        ONE,
        watched(look(*pods(without=(("decode", 0), ("decode", 1))))),
    ),
    "a replica of two groups": (MIXED, watched(look(*pods(), pod("decode", 0, 2, group="b")))),
    "a replica of too many": (MIXED, watched(look(*pods(), pod("decode", 0, 2)))),
    "a queue that counts more": (
        "ClusterQueue usage is the sum of the Pods",
        watched(look(*pods()), usage={"h200": {"cpu": Fraction(2)}}),
    ),
}


def test_what_is_right_passes() -> None:
    held, wrong = verify(GOOD)
    assert [] == wrong
    assert [*OF_ANY_STEP, *OF_AN_EDIT, *OF_A_REPLACEMENT] == held


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_named(name: str) -> None:
    title, situation = BROKEN[name]
    _held, wrong = verify(situation)
    assert [sentence for sentence in wrong if sentence.startswith(f"{title}: ")], wrong


def test_every_check_is_broken_once() -> None:
    titles = {title for title, _situation in BROKEN.values()}
    assert titles == {*OF_ANY_STEP, *OF_AN_EDIT, *OF_A_REPLACEMENT}


def test_a_survivor_of_a_scale_down_that_restarts_is_named() -> None:
    scaled = replace(GOOD, replaced="", scaled="decode")
    _held, wrong = verify(scaled)
    assert any("decode r0 changed although it stays" in sentence for sentence in wrong)


def test_the_table_marks_what_changed() -> None:
    heading, prefill, *decode = table(facts("a"), facts("b"), "chat")
    assert heading.split()[:3] == ["role", "ordinal", "members"]
    assert "*" not in prefill
    assert [2 + 1, 2 + 1] == [line.count("*") for line in decode]


@pytest.mark.parametrize(
    ("text", "number"),
    [("4", 4), ("100m", Fraction(1, 10)), ("1Gi", 2**30), ("2k", 2000), ("1.5", Fraction(3, 2))],
)
def test_quantities(text: str, number: Fraction) -> None:
    assert number == quantity(text)
