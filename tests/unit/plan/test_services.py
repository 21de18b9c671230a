"""The Services a role needs: by what is declared and by what still stands."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import Desired, ServicePort
from gpustack_deploy.model.observed import ObservedMember, ObservedService
from gpustack_deploy.plan.services import (
    ServiceKind,
    WantedService,
    is_aligned,
    peer_ordinals,
    selects_on_answering,
    surplus_peers,
    wanted_services,
)
from tests.builders import (
    DesiredBuilder,
    MemberBuilder,
    make_desired,
    make_member,
    make_record,
    make_replica,
    make_service,
    observe,
)

pytestmark = pytest.mark.check

IDENTITY = identity.role_selector("chat", "decode")
LEADER_ONLY = {identity.LABEL_MEMBER_INDEX: "0"}
ANSWERING = {identity.LABEL_API_ANSWERING: "true"}

SINGLE = make_desired().replicas(2)
PAIRS = make_desired().replicas(2).size(2)


def members_of(
    built: DesiredBuilder,
    *ordinals: int,
    change: Callable[[MemberBuilder], MemberBuilder] = lambda each: each,
) -> list[ObservedMember]:
    desired = built.obj()
    return [change(each).obj() for ordinal in ordinals for each in make_replica(desired, ordinal)]


def wanted(
    built: DesiredBuilder, members: Sequence[ObservedMember] = ()
) -> tuple[WantedService, ...]:
    return wanted_services(observe(built.obj(), make_record().obj(), *members))


def routed(built: DesiredBuilder, members: Sequence[ObservedMember] = ()) -> dict[str, str]:
    """What the role's Service adds to the role's identity."""
    (service,) = (each for each in wanted(built, members) if each.kind is ServiceKind.ROLE)
    assert IDENTITY.items() <= service.selector.items()
    return dict(service.selector.items() - IDENTITY.items())


# --- which stand ---


def test_a_role_has_its_own_service() -> None:
    assert ["chat-decode"] == [each.name for each in wanted(SINGLE)]


def test_the_front_role_keeps_the_deployments_service_too_with_the_same_selector() -> None:
    front, own = wanted(SINGLE.front())
    assert ("chat", ServiceKind.FRONT) == (front.name, front.kind)
    assert ("chat-decode", ServiceKind.ROLE) == (own.name, own.kind)
    assert front.selector == own.selector


def test_several_members_need_a_peer_service_for_each_ordinal_before_any_stands() -> None:
    assert ["chat-decode", "chat-decode-r0", "chat-decode-r1"] == [
        each.name for each in wanted(PAIRS)
    ]


@pytest.mark.parametrize(
    ("declared", "members", "want"),
    [
        pytest.param(SINGLE, [], (), id="single members have no peers"),
        pytest.param(SINGLE, members_of(SINGLE, 0, 1), (), id="standing single ones neither"),
        pytest.param(PAIRS, [], (0, 1), id="declared pairs"),
        pytest.param(SINGLE, members_of(PAIRS, 1), (1,), id="shrunk, the old pair still stands"),
        pytest.param(
            SINGLE,
            members_of(PAIRS, 1, change=lambda each: each.terminating()),
            (1,),
            id="shrunk, the old pair is leaving",
        ),
        pytest.param(
            SINGLE,
            members_of(PAIRS, 1, change=lambda each: each.terminating().ended())[:1],
            (1,),
            id="shrunk, one ended member of the pair is still listed",
        ),
        pytest.param(
            PAIRS, members_of(PAIRS.replicas(4), 3), (0, 1, 3), id="a surplus pair still stands"
        ),
        pytest.param(PAIRS.replicas(1), members_of(SINGLE, 1), (0,), id="a surplus single"),
        pytest.param(
            SINGLE,
            members_of(PAIRS, 0, change=lambda each: each.total(None)),
            (),
            id="a total that cannot be read is no evidence",
        ),
        pytest.param(
            SINGLE,
            members_of(PAIRS, 0, change=lambda each: each.owned_by("somebody")),
            (),
            id="a stranger's pair is no evidence",
        ),
        pytest.param(
            SINGLE,
            members_of(PAIRS, 0, change=lambda each: each.having(ordinal=None)),
            (),
            id="a member that stands nowhere",
        ),
    ],
)
def test_peers_are_needed_by_declared_pairs_and_wherever_one_still_stands(
    declared: DesiredBuilder, members: Sequence[ObservedMember], want: tuple[int, ...]
) -> None:
    assert want == peer_ordinals(observe(declared.obj(), make_record().obj(), *members))


def test_a_peer_service_selects_its_ordinal_and_publishes_members_that_are_not_ready() -> None:
    peer = wanted(PAIRS)[1]
    assert {**IDENTITY, identity.LABEL_ORDINAL: "0"} == peer.selector
    assert peer.is_headless
    assert () == peer.ports


def test_a_service_says_what_it_is_for() -> None:
    kinds = [each.labels[identity.LABEL_SERVICE] for each in wanted(PAIRS.front())]
    assert ["front", "role", "peer", "peer"] == kinds


def test_labels_and_annotations_of_the_user_reach_addressed_services_only() -> None:
    built = PAIRS.service(labels={"team": "a"}, annotations={"lb": "internal"})
    own, peer, _ = wanted(built)
    assert "a" == own.labels["team"]
    assert {"lb": "internal"} == own.annotations
    assert "team" not in peer.labels
    assert {} == peer.annotations


# --- whom they select ---

TAKE_OVER = SINGLE.take_over()
EXTERNAL = PAIRS.external_dp()


@pytest.mark.parametrize(
    ("declared", "members", "want"),
    [
        pytest.param(SINGLE, [], {}, id="single, nothing stands"),
        pytest.param(SINGLE, members_of(SINGLE, 0, 1), {}, id="single members stand"),
        pytest.param(PAIRS, [], LEADER_ONLY, id="pairs, nothing stands"),
        pytest.param(PAIRS, members_of(PAIRS, 0, 1), LEADER_ONLY, id="pairs stand"),
        pytest.param(PAIRS, members_of(SINGLE, 0, 1), LEADER_ONLY, id="single ones before growth"),
        pytest.param(
            SINGLE,
            [*members_of(SINGLE, 0), *members_of(PAIRS, 1)],
            LEADER_ONLY,
            id="shrinking, a pair still stands",
        ),
        pytest.param(
            SINGLE,
            [
                *members_of(SINGLE, 0),
                *members_of(PAIRS, 1, change=lambda each: each.terminating().ended()),
            ],
            LEADER_ONLY,
            id="shrinking, the pair is leaving",
        ),
        pytest.param(EXTERNAL, [], ANSWERING, id="external, nothing stands"),
        pytest.param(EXTERNAL, members_of(EXTERNAL, 0, 1), ANSWERING, id="every rank answers"),
    ],
)
def test_followers_are_never_selected(
    declared: DesiredBuilder, members: Sequence[ObservedMember], want: dict[str, str]
) -> None:
    assert want == routed(declared, members)


@pytest.mark.parametrize(
    ("declared", "members", "want"),
    [
        pytest.param(
            TAKE_OVER, members_of(SINGLE, 0, 1), ANSWERING, id="first look after the edit"
        ),
        pytest.param(
            TAKE_OVER,
            [*members_of(SINGLE, 0), *members_of(TAKE_OVER, 1)],
            ANSWERING,
            id="half replaced",
        ),
        pytest.param(
            TAKE_OVER,
            [
                *members_of(SINGLE, 0, change=lambda each: each.terminating().ended()),
                *members_of(TAKE_OVER, 1),
            ],
            ANSWERING,
            id="the last old one is leaving",
        ),
        pytest.param(TAKE_OVER, members_of(TAKE_OVER, 0, 1), {}, id="every old one has gone"),
        pytest.param(TAKE_OVER, [], {}, id="nothing stands"),
        pytest.param(SINGLE, members_of(TAKE_OVER, 0), ANSWERING, id="back to managed"),
        pytest.param(EXTERNAL, members_of(PAIRS, 0), ANSWERING, id="towards external"),
        pytest.param(PAIRS, members_of(EXTERNAL, 0), ANSWERING, id="away from external"),
        pytest.param(
            TAKE_OVER,
            members_of(SINGLE, 0, change=lambda each: each.owned_by("somebody")),
            {},
            id="a stranger mixes nothing",
        ),
    ],
)
def test_while_command_modes_are_mixed_members_tell_whether_they_answer(
    declared: DesiredBuilder, members: Sequence[ObservedMember], want: dict[str, str]
) -> None:
    assert want == routed(declared, members)


def test_a_selector_moves_once_to_the_old_rule_and_once_back() -> None:
    """From managed to take-over, two replicas, each look of the whole run."""
    leave = members_of(SINGLE, 1, change=lambda each: each.terminating())
    last = members_of(SINGLE, 0, change=lambda each: each.terminating())
    looks = [
        members_of(SINGLE, 0, 1),
        [*members_of(SINGLE, 0), *leave],
        members_of(SINGLE, 0),
        [*members_of(SINGLE, 0), *members_of(TAKE_OVER, 1)],
        [*last, *members_of(TAKE_OVER, 1)],
        members_of(TAKE_OVER, 1),
        members_of(TAKE_OVER, 0, 1),
    ]
    selectors = [routed(TAKE_OVER, look) for look in looks]
    moves = [now for before, now in zip([{}, *selectors], selectors, strict=False) if now != before]
    assert [ANSWERING, {}] == moves


def test_only_a_service_that_selects_on_answering_makes_withdrawal_worth_a_write() -> None:
    plain, answering = make_service(wanted(SINGLE)[0]), make_service(wanted(EXTERNAL)[0])
    assert not selects_on_answering((plain,))
    assert selects_on_answering((plain, answering))
    assert not selects_on_answering(())


# --- whether one stands as it should ---

OWN = wanted(SINGLE.service(labels={"team": "a"}, annotations={"lb": "internal"}))[0]
PEER = wanted(PAIRS)[1]


@pytest.mark.parametrize("service", [OWN, PEER], ids=["addressed", "peer"])
def test_a_service_that_was_just_made_is_aligned(service: WantedService) -> None:
    assert is_aligned(service, make_service(service))


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({"selector": {"app": "x"}}, False, id="selector edited by hand"),
        pytest.param({"selector": {**OWN.selector, "x": "y"}}, False, id="a term added"),
        pytest.param({"ports": (("http", 81, "8000", "TCP"),)}, False, id="another port"),
        pytest.param({"ports": (("http", 80, "9000", "TCP"),)}, False, id="another target"),
        pytest.param({"ports": ()}, False, id="no port"),
        pytest.param({"publishes_not_ready": True}, False, id="publishes what is not ready"),
        pytest.param({"labels": {}}, False, id="labels gone"),
        pytest.param({"annotations": {"lb": "public"}}, False, id="annotation edited"),
        pytest.param({"labels": {**OWN.labels, "x": "y"}}, True, id="a label of others is kept"),
        pytest.param(
            {"annotations": {**OWN.annotations, "x": "y"}}, True, id="an annotation of others"
        ),
        pytest.param({"cluster_ip": "10.9.9.9"}, True, id="its address is its own"),
    ],
)
def test_what_of_a_service_is_compared(change: dict[str, object], want: bool) -> None:
    service: ObservedService = replace(make_service(OWN), **change)  # type: ignore[arg-type]
    assert want is is_aligned(OWN, service)


def test_protocol_and_target_are_compared_as_the_server_writes_them() -> None:
    built = SINGLE.service(ServicePort("http", 80, 8000), ServicePort("raw", 53, 53, "UDP"))
    (service,) = wanted(built)
    ports = (("http", 80, "8000", "TCP"), ("raw", 53, "53", "UDP"))
    assert is_aligned(service, replace(make_service(service), ports=ports))


# --- what is pruned ---


def pruned(
    declared: Desired, *services: ObservedService, standing: Sequence[ObservedMember] = ()
) -> list[str]:
    role = observe(declared, make_record().obj(), *standing, services=services)
    return [each.name for each in surplus_peers(role, wanted_services(role))]


def test_a_peer_service_goes_when_its_last_member_has_left() -> None:
    peer = make_service(wanted(PAIRS)[2])
    old = members_of(PAIRS, 1, change=lambda each: each.terminating().ended())
    assert [] == pruned(SINGLE.obj(), peer, standing=old)
    assert ["chat-decode-r1"] == pruned(SINGLE.obj(), peer)


def test_a_single_member_on_the_ordinal_keeps_no_peer_service() -> None:
    peer = make_service(wanted(PAIRS)[2])
    assert ["chat-decode-r1"] == pruned(SINGLE.obj(), peer, standing=members_of(SINGLE, 1))


@pytest.mark.parametrize(
    "service",
    [
        pytest.param(make_service(PEER, owner_uid="somebody"), id="somebody else's"),
        pytest.param(
            replace(make_service(PEER), labels=IDENTITY), id="one that does not say it is a peer"
        ),
        pytest.param(replace(make_service(PEER), is_terminating=True), id="one that leaves"),
        pytest.param(make_service(wanted(SINGLE.front())[0]), id="the front, wanted or not"),
    ],
)
def test_nothing_else_is_pruned(service: ObservedService) -> None:
    assert [] == pruned(SINGLE.obj(), service)


def test_a_peer_service_of_a_lost_record_is_pruned_too() -> None:
    record = make_record().having(former_uid="lost").obj()
    service = make_service(PEER, owner_uid="lost")
    role = observe(SINGLE.obj(), record, services=[service])
    assert (service,) == surplus_peers(role, wanted_services(role))


def test_a_member_says_by_its_own_shape_whether_it_answers() -> None:
    follower = make_member().of(PAIRS.obj(), 0, 1).obj()
    rank = make_member().of(EXTERNAL.obj(), 0, 1).obj()
    assert not follower.answers_api
    assert rank.answers_api
