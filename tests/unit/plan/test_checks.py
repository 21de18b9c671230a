"""The named checks: each line that can be unmet, in its order, and the sentence a user reads."""

from collections.abc import Callable, Sequence

import pytest

from gpustack_deploy.model.desired import Gate
from gpustack_deploy.model.observed import ObservedMember, ObservedWorkload
from gpustack_deploy.plan.checks import (
    ADMISSION_CODES,
    Unmet,
    WaitCode,
    fresh_admission,
    gate_passed,
    looks_queued,
    members_released,
    members_standing,
    never_admitted,
)
from tests.builders import (
    MemberBuilder,
    WorkloadBuilder,
    make_desired,
    make_member,
    make_replica,
    make_workload,
)

pytestmark = pytest.mark.check

PAIR = make_desired().size(2).obj()
LEADER, FOLLOWER = (each.obj() for each in make_replica(PAIR))
ADMITTED = make_workload().of(LEADER, FOLLOWER).admitted()

Change = Callable[[MemberBuilder], MemberBuilder]


def pair(change: Change = lambda each: each) -> list[ObservedMember]:
    """Both members, the follower changed."""
    return [LEADER, change(MemberBuilder(FOLLOWER)).obj()]


# --- the declared members stand ---


def test_exactly_the_declared_members_stand() -> None:
    assert members_standing(PAIR, 0, pair()) is None


@pytest.mark.parametrize(
    ("members", "code", "reason"),
    [
        pytest.param([], WaitCode.MEMBERS_SHORT, "no members to read", id="nobody"),
        pytest.param([LEADER], WaitCode.MEMBERS_SHORT, "1 of 2 members stand", id="one of two"),
        pytest.param(
            [*pair(), make_member().of(PAIR, 0, 1).uid("third").obj()],
            WaitCode.MEMBERS_SHORT,
            "3 of 2 members stand",
            id="one too many",
        ),
        pytest.param(
            pair(lambda each: each.terminating()),
            WaitCode.MEMBER_LEAVING,
            "chat-decode-r0-m1 is leaving",
            id="one is leaving",
        ),
        pytest.param(
            pair(lambda each: each.seat(0)),
            WaitCode.SEAT_DUPLICATE,
            "two members claim one seat",
            id="one seat twice",
        ),
        pytest.param(
            pair(lambda each: each.seat(None)),
            WaitCode.SEAT_MISSING,
            "no member on seat 1",
            id="a seat that cannot be read",
        ),
        pytest.param(
            pair(lambda each: each.seat(5)),
            WaitCode.SEAT_MISSING,
            "no member on seat 1",
            id="a seat beyond the declaration",
        ),
        pytest.param(
            pair(lambda each: each.having(fingerprint="earlier")),
            WaitCode.RENDER_DIFFERS,
            "chat-decode-r0-m1 does not carry the current fingerprint",
            id="built from an earlier declaration",
        ),
        pytest.param(
            pair(lambda each: each.having(fingerprint=LEADER.fingerprint)),
            WaitCode.RENDER_DIFFERS,
            "chat-decode-r0-m1 does not carry the current fingerprint",
            id="the fingerprint of another seat",
        ),
    ],
)
def test_what_is_missing_until_the_members_stand(
    members: Sequence[ObservedMember], code: WaitCode, reason: str
) -> None:
    assert Unmet(code, 0, reason) == members_standing(PAIR, 0, members)


# --- released by Kueue ---


def test_members_without_a_gate_and_with_a_workload_are_released() -> None:
    assert members_released(PAIR, 0, pair(), None) is None


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        pytest.param(None, "waiting for quota in LocalQueue h200", id="no Workload read"),
        pytest.param(
            make_workload(), "waiting for quota in LocalQueue h200", id="one that says nothing"
        ),
        pytest.param(
            make_workload().condition("QuotaReserved", "False", message="8 more needed"),
            "waiting for quota in LocalQueue h200: 8 more needed",
            id="Kueue's own words",
        ),
        pytest.param(
            make_workload()
            .condition("QuotaReserved", message="reserved")
            .condition("Admitted", "False", message="waits for a check"),
            "waiting for quota in LocalQueue h200: waits for a check",
            id="reserved and not admitted",
        ),
        pytest.param(
            make_workload().condition("QuotaReserved", message="reserved"),
            "waiting for quota in LocalQueue h200",
            id="what holds is no reason",
        ),
    ],
)
def test_a_gated_member_waits_and_says_for_what(
    workload: WorkloadBuilder | None, reason: str
) -> None:
    members = pair(lambda each: each.gated())
    got = members_released(PAIR, 0, members, workload.obj() if workload else None)
    assert Unmet(WaitCode.NOT_ADMITTED, 0, reason) == got


# --- a fresh admission, line by line ---


def test_a_fresh_admission_describes_exactly_these_members() -> None:
    assert fresh_admission(PAIR, 0, pair(), ADMITTED.obj()) is None


@pytest.mark.parametrize(
    ("workload", "code", "reason"),
    [
        pytest.param(
            None,
            WaitCode.NO_WORKLOAD,
            "Kueue has composed no Workload yet for LocalQueue h200",
            id="none composed",
        ),
        pytest.param(
            ADMITTED.terminating(),
            WaitCode.WORKLOAD_TERMINATING,
            "Workload g0 is terminating",
            id="terminating",
        ),
        pytest.param(
            ADMITTED.owned_by("earlier"),
            WaitCode.NOT_OWNER,
            "Workload g0 is owned by 0 of 2 members and 1 others",
            id="inherited from earlier members",
        ),
        pytest.param(
            ADMITTED.owned_by(LEADER.uid),
            WaitCode.NOT_OWNER,
            "Workload g0 is owned by 1 of 2 members and 0 others",
            id="owned by one of two",
        ),
        pytest.param(
            ADMITTED.owned_by(LEADER.uid, FOLLOWER.uid, "earlier"),
            WaitCode.NOT_OWNER,
            "Workload g0 is owned by 2 of 2 members and 1 others",
            id="owned by a third as well",
        ),
        pytest.param(
            ADMITTED.owned_by(),
            WaitCode.NOT_OWNER,
            "Workload g0 is owned by 0 of 2 members and 0 others",
            id="ownerless",
        ),
        pytest.param(
            ADMITTED.pod_set("decode", 1),
            WaitCode.COMPOSITION_DIFFERS,
            "Workload g0 has PodSets decode x 1, needed decode x 2",
            id="composed short",
        ),
        pytest.param(
            ADMITTED.pod_set("main", 1),
            WaitCode.COMPOSITION_DIFFERS,
            "Workload g0 has PodSets decode x 2, main x 1, needed decode x 2",
            id="a second PodSet",
        ),
        pytest.param(
            ADMITTED.having(pod_sets=()),
            WaitCode.COMPOSITION_DIFFERS,
            "Workload g0 has PodSets none, needed decode x 2",
            id="no PodSet",
        ),
        pytest.param(
            make_workload().of(LEADER, FOLLOWER, role="prefill").admitted(),
            WaitCode.COMPOSITION_DIFFERS,
            "Workload g0 has PodSets prefill x 2, needed decode x 2",
            id="another role's PodSet",
        ),
        pytest.param(
            make_workload()
            .of(make_member().of(PAIR).having(template_digest="other").obj(), FOLLOWER)
            .owned_by(LEADER.uid, FOLLOWER.uid)
            .admitted(),
            WaitCode.COMPOSITION_DIFFERS,
            "the containers of Workload g0 are those of no member",
            id="other containers",
        ),
        pytest.param(
            ADMITTED.having(local_queue="a100"),
            WaitCode.QUEUE_DIFFERS,
            "Workload g0 is queued in LocalQueue a100, needed h200",
            id="another queue",
        ),
        pytest.param(
            ADMITTED.having(local_queue=""),
            WaitCode.QUEUE_DIFFERS,
            "Workload g0 is queued in LocalQueue (none), needed h200",
            id="no queue",
        ),
        pytest.param(
            make_workload().of(LEADER, FOLLOWER).reserved(),
            WaitCode.NOT_ADMITTED,
            "waiting for quota in LocalQueue h200",
            id="reserved is not admitted",
        ),
        pytest.param(
            make_workload().of(LEADER, FOLLOWER).condition("Admitted"),
            WaitCode.NOT_ADMITTED,
            "waiting for quota in LocalQueue h200",
            id="admitted without an admission",
        ),
        pytest.param(
            ADMITTED.condition("Admitted", "False", message="evicted"),
            WaitCode.NOT_ADMITTED,
            "waiting for quota in LocalQueue h200: evicted",
            id="admission taken back",
        ),
    ],
)
def test_each_line_of_a_fresh_admission(
    workload: WorkloadBuilder | None, code: WaitCode, reason: str
) -> None:
    got = fresh_admission(PAIR, 0, pair(), workload.obj() if workload else None)
    assert Unmet(code, 0, reason) == got


def test_the_template_of_any_one_member_is_enough() -> None:
    other = make_member().of(PAIR, 0, 1).having(template_digest="mutated by a webhook").obj()
    workload = make_workload().of(other, LEADER).admitted().obj()
    assert fresh_admission(PAIR, 0, [LEADER, other], workload) is None


def test_members_are_judged_before_their_workload() -> None:
    unmet = fresh_admission(PAIR, 0, [LEADER], None)
    assert unmet is not None
    assert WaitCode.MEMBERS_SHORT is unmet.code


def test_the_first_unmet_line_is_the_one_that_is_read() -> None:
    broken_everywhere = ADMITTED.terminating().owned_by().having(local_queue="")
    unmet = fresh_admission(PAIR, 0, pair(), broken_everywhere.obj())
    assert unmet is not None
    assert WaitCode.WORKLOAD_TERMINATING is unmet.code


def test_only_waiting_for_kueue_counts_as_waiting_for_admission() -> None:
    assert {WaitCode.NO_WORKLOAD, WaitCode.NOT_ADMITTED} == ADMISSION_CODES


# --- the gate ---


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(
            lambda each: each.unready(),
            "1 of 2 members are Ready; chat-decode-r0-m1: started and not Ready",
            id="started",
        ),
        pytest.param(
            lambda each: each.unready("ImagePullBackOff: no such image"),
            "1 of 2 members are Ready; chat-decode-r0-m1: ImagePullBackOff: no such image",
            id="its container waits",
        ),
        pytest.param(
            lambda each: each.unstarted("0/3 nodes are available"),
            "1 of 2 members are Ready; chat-decode-r0-m1: 0/3 nodes are available",
            id="no node fits",
        ),
        pytest.param(
            lambda each: each.unstarted(),
            "1 of 2 members are Ready; chat-decode-r0-m1: not started",
            id="not started",
        ),
    ],
)
def test_the_gate_asks_every_member_to_be_ready(change: Change, reason: str) -> None:
    assert Unmet(WaitCode.NOT_READY, 0, reason) == gate_passed(PAIR, 0, pair(change))


def test_the_gate_is_passed_when_all_are_ready() -> None:
    assert gate_passed(PAIR, 0, pair()) is None


def test_the_gate_admitted_asks_nothing_more() -> None:
    admitted_only = make_desired().size(2).gate(Gate.ADMITTED).obj()
    assert gate_passed(admitted_only, 0, pair(lambda each: each.unready())) is None


# --- never admitted ---

QUEUED = [each.gated().obj() for each in make_replica(PAIR)]
QUEUED_WORKLOAD = make_workload().of(*QUEUED)


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(QUEUED_WORKLOAD, id="nothing said yet"),
        pytest.param(QUEUED_WORKLOAD.reserved(), id="quota reserved and not admitted"),
        pytest.param(QUEUED_WORKLOAD.condition("Admitted", "False"), id="admitted is False"),
        pytest.param(
            QUEUED_WORKLOAD.condition("PodsReady", "False", reason="WaitForStart"),
            id="waiting for a first start",
        ),
        pytest.param(QUEUED_WORKLOAD.owned_by(*(m.uid for m in QUEUED), "x"), id="owned by more"),
    ],
)
def test_a_complete_group_that_kueue_never_let_go(workload: WorkloadBuilder) -> None:
    assert never_admitted(QUEUED, workload.obj())


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(QUEUED_WORKLOAD.admitted(), id="admitted"),
        pytest.param(QUEUED_WORKLOAD.condition("Admitted", "Unknown"), id="admission unknown"),
        pytest.param(QUEUED_WORKLOAD.terminating(), id="its Workload is leaving"),
        pytest.param(QUEUED_WORKLOAD.owned_by(QUEUED[0].uid), id="owned by one of two"),
        pytest.param(QUEUED_WORKLOAD.owned_by(), id="ownerless"),
        pytest.param(QUEUED_WORKLOAD.having(has_admission_history=True), id="it has run"),
        *(
            pytest.param(QUEUED_WORKLOAD.condition(kind, status), id=f"{kind} is {status}")
            for kind in ("Evicted", "Preempted", "Requeued", "Finished")
            for status in ("True", "False", "Unknown")
        ),
        pytest.param(QUEUED_WORKLOAD.condition("PodsReady"), id="it was Ready"),
        pytest.param(
            QUEUED_WORKLOAD.condition("PodsReady", "False", reason="WaitForRecovery"),
            id="waiting for recovery",
        ),
    ],
)
def test_a_workload_that_ran_or_may_have_run(workload: WorkloadBuilder) -> None:
    assert not never_admitted(QUEUED, workload.obj())


NOT_QUEUED = [
    pytest.param(lambda each: each.having(is_gated=False), id="gate removed"),
    pytest.param(lambda each: each.having(node_name="n"), id="node assigned"),
    pytest.param(lambda each: each.having(has_container_status=True), id="container status"),
    pytest.param(lambda each: each.terminating(), id="leaving"),
    pytest.param(lambda each: each.ended(), id="ended"),
    pytest.param(lambda each: each.having(phase="Running"), id="running"),
]


@pytest.mark.parametrize("change", NOT_QUEUED)
def test_one_member_that_may_have_run_condemns_the_group(change: Change) -> None:
    members = [QUEUED[0], change(MemberBuilder(QUEUED[1])).obj()]
    assert not looks_queued(members)
    assert not never_admitted(members, QUEUED_WORKLOAD.obj())


def test_a_pod_whose_phase_is_not_written_yet_may_be_queued() -> None:
    assert looks_queued([make_member().gated().having(phase="").obj()])


def unmet_codes(workload: ObservedWorkload) -> set[WaitCode]:
    unmet = fresh_admission(PAIR, 0, QUEUED, workload)
    return {unmet.code} if unmet else set()


def test_what_was_never_admitted_has_no_fresh_admission() -> None:
    assert {WaitCode.NOT_ADMITTED} == unmet_codes(QUEUED_WORKLOAD.obj())
