"""Raw objects of the fake: a mutable JSON mapping, copies, patches, selectors, quantities."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

Object = dict[str, Any]
Objects = list[Object]
Names = list[str]

_SUFFIXES: Final[Mapping[str, Decimal]] = {
    "m": Decimal("0.001"),
    "k": Decimal(1000),
    "M": Decimal(1000) ** 2,
    "G": Decimal(1000) ** 3,
    "T": Decimal(1000) ** 4,
    "Ki": Decimal(1024),
    "Mi": Decimal(1024) ** 2,
    "Gi": Decimal(1024) ** 3,
    "Ti": Decimal(1024) ** 4,
}


def copy_of(value: Any) -> Any:
    """Return a deep copy made of plain dicts and lists."""
    # Most of an object is text in plain dicts: these two need no look at the abstract types.
    if type(value) is str:
        return value
    if type(value) is dict:
        return {key: copy_of(item) for key, item in value.items()}
    if isinstance(value, Mapping):
        return {key: copy_of(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_of(item) for item in value]
    return value


def merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> Object:
    """Return the target with a JSON merge patch (RFC 7386) applied."""
    result: Object = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            below = result.get(key)
            result[key] = merged(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = copy_of(value)
    return result


def selects(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether an equality or existence selector (`a=b,c,!d,e!=f`) matches the labels."""
    for term in filter(None, (part.strip() for part in selector.split(","))):
        if term.startswith("!"):
            is_met = term[1:] not in labels
        elif "!=" in term:
            key, value = term.split("!=", 1)
            is_met = labels.get(key.strip()) != value.strip()
        elif "=" in term:
            key, value = term.replace("==", "=").split("=", 1)
            is_met = labels.get(key.strip()) == value.strip()
        else:
            is_met = term in labels
        if not is_met:
            return False
    return True


def quantity(text: str | int) -> Decimal:
    """Return the number that a Kubernetes quantity spells."""
    text = str(text)
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if text.endswith(suffix):
            return Decimal(text.removesuffix(suffix)) * _SUFFIXES[suffix]
    return Decimal(text)


def pod_requests(spec: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return what a Pod asks for: its containers' requests, limits where a request is missing."""
    total: dict[str, Decimal] = {}
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        for name, amount in {
            **(resources.get("limits") or {}),
            **(resources.get("requests") or {}),
        }.items():
            total[name] = total.get(name, Decimal(0)) + quantity(amount)
    return total


def meta(obj: Mapping[str, Any]) -> Object:
    """The object's metadata."""
    found: Object = obj["metadata"]
    return found


def uid_of(obj: Mapping[str, Any]) -> str:
    return str(meta(obj)["uid"])


def name_of(obj: Mapping[str, Any]) -> str:
    return str(meta(obj)["name"])


def namespace_of(obj: Mapping[str, Any]) -> str:
    return str(meta(obj).get("namespace", ""))


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return meta(obj).get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return meta(obj).get("annotations") or {}


def is_terminating(obj: Mapping[str, Any]) -> bool:
    return bool(meta(obj).get("deletionTimestamp"))


def phase_of(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def node_of(pod: Mapping[str, Any]) -> str:
    return str((pod.get("spec") or {}).get("nodeName", ""))


def gates_of(pod: Mapping[str, Any]) -> list[str]:
    return [gate["name"] for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]


def conditions_of(obj: Mapping[str, Any]) -> list[Object]:
    found: list[Object] = (obj.get("status") or {}).get("conditions") or []
    return found


def condition_status(obj: Mapping[str, Any], kind: str) -> str:
    """Return the status of that condition, or nothing when the object has none of the type."""
    for condition in conditions_of(obj):
        if condition["type"] == kind:
            return str(condition["status"])
    return ""


def set_condition(
    obj: Object, kind: str, status: str, *, reason: str, message: str, now: str
) -> bool:
    """Set the condition in place; return whether anything changed."""
    wanted = {"type": kind, "status": status, "reason": reason, "message": message}
    conditions = obj.setdefault("status", {}).setdefault("conditions", [])
    for condition in conditions:
        if condition["type"] == kind:
            if all(condition.get(key) == value for key, value in wanted.items()):
                return False
            if condition["status"] != status:
                condition["lastTransitionTime"] = now
            condition.update(wanted)
            return True
    conditions.append({**wanted, "lastTransitionTime": now})
    return True
