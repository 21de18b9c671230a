"""The verification after an edit: plain comparisons of what stood, what stands and what was asked.

Each check returns the sentences that are wrong; none means that it holds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from walkthrough.edits import Expected
from walkthrough.facts import Facts, Member, Service
from walkthrough.watch import Watched

GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Situation:
    """What a check compares; `before` is None for the first step."""

    before: Facts | None
    after: Facts
    watched: Watched
    expected: Expected
    deployment: str
    replaced: str = ""
    scaled: str = ""

    @property
    def siblings(self) -> list[str]:
        return [role for role in self.expected if role not in (self.replaced, self.scaled)]


Check = Callable[[Situation], Iterator[str]]


def verify(situation: Situation) -> tuple[list[str], list[str]]:
    """The titles of the checks that hold, and every sentence that is wrong."""
    checks = dict(OF_ANY_STEP)
    if situation.before is not None:
        checks |= OF_AN_EDIT
    if situation.replaced:
        checks |= OF_A_REPLACEMENT
    held, wrong = [], []
    for title, check in checks.items():
        found = list(check(situation))
        if found:
            wrong += [f"{title}: {sentence}" for sentence in found]
        else:
            held.append(title)
    return held, wrong


def left_over(after: Facts) -> list[str]:
    """What of the deployment is still there after it was destroyed."""
    return [
        *(f"Pod {member.name}" for member in after.members),
        *(f"Workload {name}" for name in after.workloads),
        *(f"Service {name}" for name in after.services),
        *(f"ConfigMap {name}" for name in after.records),
    ]


def _members(situation: Situation) -> Iterator[str]:
    wanted = {
        f"{situation.deployment}-{role}-r{ordinal}-m{index}"
        for role, each in situation.expected.items()
        for ordinal in range(each.replicas)
        for index in range(each.size)
    }
    found = {member.name for member in situation.after.members}
    for name in sorted(wanted - found):
        yield f"{name} is missing"
    for name in sorted(found - wanted):
        yield f"{name} should not be there"
    for member in situation.after.members:
        if not member.is_ready or member.is_gated or member.is_leaving:
            yield f"{member.name} does not serve"


def _fresh_uids(situation: Situation) -> Iterator[str]:
    old, new = _both(situation)
    kept = _uids(old.members_of(situation.replaced)) & _uids(new.members_of(situation.replaced))
    for uid in kept:
        yield f"Pod {uid} outlived the replacement"
    for uid in _workload_uids(old, situation.replaced) & _workload_uids(new, situation.replaced):
        yield f"Workload {uid} outlived the replacement"


def _one_workload(situation: Situation) -> Iterator[str]:
    wanted = set()
    for role in situation.expected:
        for ordinal, members in situation.after.replicas(role).items():
            where = f"{role} r{ordinal}"
            if len({member.group for member in members}) != 1:
                yield f"{where} has members of several groups"
                continue
            workload = situation.after.workload_of(members)
            if workload is None:
                yield f"{where} has no Workload"
                continue
            wanted.add(workload.name)
            if workload.owners != {("Pod", member.uid) for member in members}:
                yield f"{where}: the Workload's owners are not exactly its members"
            if not workload.is_admitted or not workload.cluster_queue:
                yield f"{where}: the Workload is not admitted"
    for name in sorted(situation.after.workloads.keys() - wanted):
        yield f"Workload {name} belongs to no replica"


def _pod_sets(situation: Situation) -> Iterator[str]:
    for role, each in situation.expected.items():
        for ordinal, members in situation.after.replicas(role).items():
            workload = situation.after.workload_of(members)
            if workload is None:
                continue
            where = f"{role} r{ordinal}"
            if len(workload.pod_sets) != 1:
                yield f"{where} has {len(workload.pod_sets)} PodSets"
                continue
            name, count, requests = workload.pod_sets[0]
            if (name, count) != (role, each.size):
                yield f"{where}: PodSet {name} x {count}, wanted {role} x {each.size}"
            if requests.get(GPU) != each.gpus:
                yield f"{where}: the PodSet asks for {requests.get(GPU)} GPUs, not {each.gpus}"
            for member in members:
                if member.requests != requests:
                    yield f"{member.name} requests something else than its PodSet"
            for resource, amount in workload.usage.items():
                if amount != each.size * requests.get(resource, Fraction(0)):
                    yield f"{where}: {resource} was admitted as {amount}"
            if workload.usage.get(GPU) != each.size * each.gpus:
                yield f"{where}: admitted with {workload.usage.get(GPU)} GPUs"


def _queues(situation: Situation) -> Iterator[str]:
    for role, each in situation.expected.items():
        for ordinal, members in situation.after.replicas(role).items():
            workload = situation.after.workload_of(members)
            queues = {member.queue for member in members} | (
                {workload.queue} if workload else set()
            )
            if queues != {each.queue}:
                yield f"{role} r{ordinal} is in {sorted(queues)}, wanted {each.queue}"


def _no_slot(situation: Situation) -> Iterator[str]:
    for role in situation.expected:
        name = f"{situation.deployment}-{role}"
        if name not in situation.after.records:
            yield f"there is no record {name}"
            continue
        record = situation.after.records[name][1]
        for key in ("slot", "departures", "batch"):
            if record[key]:
                yield f"record {name} still holds a {key}"
        if record["lock"]["holder"]:
            yield f"record {name} is still locked"


def _services(situation: Situation) -> Iterator[str]:
    for name in _addresses(situation):
        if name not in situation.after.services:
            yield f"Service {name} is missing"
    wanted = {
        f"{situation.deployment}-{role}-r{ordinal}"
        for role, each in situation.expected.items()
        if each.size > 1
        for ordinal in range(each.replicas)
    }
    found = _peers(situation.after)
    for name in sorted(wanted - found.keys()):
        yield f"peer Service {name} is missing"
    for name in sorted(found.keys() - wanted):
        yield f"peer Service {name} should be gone"
    for peer in found.values():
        if peer.cluster_ip != "None" or not peer.publishes_not_ready:
            yield f"peer Service {peer.name} is not headless, or hides members that start"


def _identities_kept(situation: Situation) -> Iterator[str]:
    before, after = _both(situation)
    for name, (uid, _) in before.records.items():
        if after.records.get(name, ("", {}))[0] != uid:
            yield f"record {name} is another object"
    for name in _addresses(situation):
        old, new = before.services.get(name), after.services.get(name)
        if old is None or new is None or (old.uid, old.cluster_ip) != (new.uid, new.cluster_ip):
            yield f"Service {name} is another object or has another address"


def _peers_through(situation: Situation) -> Iterator[str]:
    """A peer Service that is wanted before and after is the same object at every look between."""
    before, after = (_peers(facts) for facts in _both(situation))
    for name in sorted(before.keys() & after.keys()):
        seen = situation.watched.service_uids(name) | {before[name].uid, after[name].uid}
        if len(seen) != 1:
            yield f"peer Service {name} was replaced or missing on the way ({sorted(seen)})"


def _one_at_a_time(situation: Situation) -> Iterator[str]:
    replicas = situation.expected[situation.replaced].replicas
    for ordinals in situation.watched.disturbed(situation.replaced, replicas):
        if len(ordinals) > 1:
            yield f"replicas {sorted(ordinals)} of {situation.replaced} were down at once"


def _never_mixed(situation: Situation) -> Iterator[str]:
    yield from situation.watched.mixed()


def _siblings_kept(situation: Situation) -> Iterator[str]:
    old, new = _both(situation)
    for role in situation.siblings:
        if _uids(old.members_of(role)) != _uids(new.members_of(role)):
            yield f"Pods of {role} changed"
        if _workload_uids(old, role) != _workload_uids(new, role):
            yield f"Workloads of {role} changed"
        if _service_uids(old, role) != _service_uids(new, role):
            yield f"Services of {role} changed"
        if any(situation.watched.disturbed(role, situation.expected[role].replicas)):
            yield f"a replica of {role} was down on the way"
    for ordinal, members in old.replicas(situation.scaled).items():
        stays = ordinal < situation.expected[situation.scaled].replicas
        if stays and _uids(members) != _uids(new.replicas(situation.scaled).get(ordinal, ())):
            yield f"{situation.scaled} r{ordinal} changed although it stays"


def _usage(situation: Situation) -> Iterator[str]:
    used, summed = situation.watched.usage, situation.watched.summed
    for queue in sorted(used.keys() | summed.keys()):
        if used.get(queue) != summed.get(queue):
            yield f"ClusterQueue {queue} counts {used.get(queue)}, its Pods {summed.get(queue)}"


OF_ANY_STEP: dict[str, Check] = {
    "every declared member serves, and no other": _members,
    "one admitted Workload a replica, owned by exactly its members": _one_workload,
    "PodSet name, count and requests": _pod_sets,
    "queue": _queues,
    "no open slot, no lock": _no_slot,
    "Services of deployment and roles, peer Services as the size asks": _services,
    "no replica of two shapes at any look": _never_mixed,
    "ClusterQueue usage is the sum of the Pods": _usage,
}
OF_AN_EDIT: dict[str, Check] = {
    "record UIDs, Service UIDs and ClusterIPs kept": _identities_kept,
    "peer Services the same before, during and after": _peers_through,
    "siblings untouched: Pods, Workloads, Services": _siblings_kept,
}
OF_A_REPLACEMENT: dict[str, Check] = {
    "fresh Pod and Workload UIDs": _fresh_uids,
    "one replica at a time": _one_at_a_time,
}


def _both(situation: Situation) -> tuple[Facts, Facts]:
    if situation.before is None:
        raise ValueError("this check compares with what stood before")
    return situation.before, situation.after


def _addresses(situation: Situation) -> list[str]:
    """Names of the Services with an address: the deployment's and each role's."""
    return [situation.deployment, *(f"{situation.deployment}-{r}" for r in situation.expected)]


def _peers(facts: Facts) -> dict[str, Service]:
    return {name: each for name, each in facts.services.items() if each.kind == "peer"}


def _uids(members: tuple[Member, ...]) -> set[str]:
    return {member.uid for member in members}


def _workload_uids(facts: Facts, role: str) -> set[str]:
    groups = {member.group for member in facts.members_of(role)}
    return {each.uid for name, each in facts.workloads.items() if name in groups}


def _service_uids(facts: Facts, role: str) -> set[str]:
    return {each.uid for each in facts.services.values() if each.role == role}
