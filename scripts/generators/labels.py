"""The reference page of every name and string key, from `gpustack_deploy.model.identity`."""

from dataclasses import dataclass

from gpustack_deploy.model import identity

PAGE = "docs/reference/labels.md"
# Constants that are values or parts of a key, not keys of their own.
NOT_KEYS = frozenset(
    {
        "ENGINE_CONTAINER",
        "FIELD_MANAGER",
        "KUEUE_GROUP",
        "KUEUE_VERSION",
        "NAME_VALUE",
        "PART_OF_VALUE",
    }
)


@dataclass(frozen=True, slots=True)
class Row:
    """What one key means, an example of its value, and what carries it."""

    meaning: str
    example: str
    on: str


LABELS = {
    "LABEL_NAME": Row("what kind of thing this belongs to", identity.NAME_VALUE, "every object"),
    "LABEL_DEPLOYMENT": Row("the deployment's name", "chat", "every object"),
    "LABEL_ROLE": Row("the role's name", "decode", "every object of one role"),
    "LABEL_PART_OF": Row("the product family", identity.PART_OF_VALUE, "every object"),
    "LABEL_SERVICE": Row("which of the three Services this is", "peer", "Services"),
    "LABEL_ORDINAL": Row("the replica's ordinal; names are never parsed", "1", "members"),
    "LABEL_MEMBER_INDEX": Row("the member's index, at every size", "0", "members"),
    "LABEL_ROLE_KIND": Row("the role's kind", "decode", "members"),
    "LABEL_API_ANSWERING": Row("this member answers API calls; absent means no", "true", "members"),
    "LABEL_RECORD": Row("marks a role's record", "true", "records"),
    "KUEUE_QUEUE_NAME": Row("the LocalQueue that the InstanceType leads to", "h200", "members"),
    "KUEUE_GROUP_NAME": Row(
        "the pod group, fresh for every attempt; also its Workload's name",
        "chat-decode-k3v9xq",
        "members",
    ),
    "KUEUE_PRIORITY_CLASS": Row("the WorkloadPriorityClass, when one is set", "high", "members"),
    "KUEUE_MANAGED": Row("Kueue took this Pod under its control", "true", "members, by Kueue"),
}
ANNOTATIONS = {
    "ANNOTATION_FINGERPRINT": Row("the member's fingerprint", "sha256 hex", "members"),
    "ANNOTATION_TOKEN": Row("the attempt that created this member", "k3v9xq", "members"),
    "ANNOTATION_RENDERER": Row("the renderer's version that built this member", "1", "members"),
    "ANNOTATION_PROMETHEUS_PORT": Row("where metrics are served", "8000", "managed members"),
    "ANNOTATION_PROMETHEUS_SCRAPE": Row("metrics may be scraped", "true", "managed members"),
    "ANNOTATION_PROMETHEUS_PATH": Row("the metrics' path", "/metrics", "managed members"),
    "ANNOTATION_PROMETHEUS_SCHEME": Row("the metrics' scheme", "http", "managed members"),
    "KUEUE_GROUP_TOTAL": Row("how many members the group has: the size", "2", "members"),
    "KUEUE_ROLE_HASH": Row("the role's name; it becomes the PodSet's name", "decode", "members"),
    "KUEUE_SERVING": Row("the group never finishes by itself", "true", "members"),
    "KUEUE_REQUIRED_TOPOLOGY": Row(
        "the topology level that holds a whole replica, when one is set",
        "cloud.provider.com/rack",
        "members",
    ),
    "KUEUE_WORKLOAD": Row("the admitted Workload's name", "as the group", "members, by Kueue"),
}
ENVIRONMENT = {
    "ENV_LEADER_ADDRESS": Row(
        "the leader's address inside the namespace",
        "chat-decode-r1-m0.chat-decode-r1",
        "members, size above 1",
    ),
    "ENV_REPLICA_SIZE": Row("the replica's size", "2", "members, size above 1"),
    "ENV_MEMBER_INDEX": Row("this member's index", "0", "members, size above 1"),
}
OTHER = {
    "KUEUE_ADMISSION_GATE": Row("scheduling gate: not admitted yet", "", "members, by Kueue"),
    "RDMA_SHARED": Row("resource: the shared RDMA device, for one interface", "1", "members"),
    "RDMA": Row("resource: RDMA devices of its own, for more", "8", "members"),
    "EFA": Row("resource: EFA devices", "16", "members"),
    "RECORD_KEY": Row("the key of the record's data", "JSON", "records"),
}


def keys() -> dict[str, str]:
    """Constant to string for every key of `identity`."""
    return {
        name: value
        for name, value in vars(identity).items()
        if name.isupper()
        and not name.startswith("_")
        and isinstance(value, str)
        and name not in NOT_KEYS
    }


def generate() -> dict[str, str]:
    """The page; fails in one sentence when a key is not described, or a description has no key."""
    tables = {
        "Labels": LABELS,
        "Annotations": ANNOTATIONS,
        "Environment variables": ENVIRONMENT,
        "Other keys": OTHER,
    }
    described = {name for table in tables.values() for name in table}
    if differing := sorted(described ^ keys().keys()):
        raise SystemExit(
            f"{', '.join(differing)}: keys of identity.py and rows of {__name__} differ;"
            f" add or remove the row so that {PAGE} is complete."
        )
    sections = [_section(title, table) for title, table in tables.items()]
    return {PAGE: "\n".join([_head(), *sections])}


def _head() -> str:
    names = (
        ("record (ConfigMap)", identity.record_name("chat", "decode")),
        ("front Service", identity.front_service_name("chat")),
        ("role Service", identity.role_service_name("chat", "decode")),
        ("peer Service of ordinal 1", identity.peer_service_name("chat", "decode", 1)),
        ("member 0 of ordinal 1", identity.member_name("chat", "decode", 1, 0)),
        ("pod group and Workload", identity.group_name("chat", "decode", "k3v9xq")),
    )
    lines = [
        "# Names, labels, annotations and environment variables",
        "",
        "<!-- Generated from gpustack_deploy/model/identity.py; `make generate` writes it. -->",
        "",
        "A name locates an object; only a UID permits a delete.",
        "",
        "## Names",
        "",
        "For the deployment `chat` with the role `decode`:",
        "",
        "| Object | Name |",
        "|---|---|",
        *(f"| {what} | `{name}` |" for what, name in names),
        "",
    ]
    return "\n".join(lines)


def _section(title: str, table: dict[str, Row]) -> str:
    lines = [f"## {title}", "", "| Key | Meaning | Example | On |", "|---|---|---|---|"]
    for name, row in table.items():
        example = f"`{row.example}`" if row.example else ""
        lines.append(f"| `{keys()[name]}` | {row.meaning} | {example} | {row.on} |")
    return "\n".join([*lines, ""])
