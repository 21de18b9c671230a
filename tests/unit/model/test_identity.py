"""Names and keys: pinned where objects that already stand depend on them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_deploy.model import identity

pytestmark = pytest.mark.check

DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
TOKEN = "0123456789abcdef0123"

names = st.from_regex(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (identity.record_name("chat", "decode"), "chat-decode"),
        (identity.front_service_name("chat"), "chat"),
        (identity.role_service_name("chat", "decode"), "chat-decode"),
        (identity.peer_service_name("chat", "decode", 3), "chat-decode-r3"),
        (identity.member_name("chat", "decode", 3, 1), "chat-decode-r3-m1"),
        (identity.probe_name("chat", "decode", TOKEN), f"chat-decode-probe-{TOKEN}"),
        (identity.group_name("chat", "decode", TOKEN), f"chat-decode-{TOKEN}"),
        (
            identity.batch_group_name("chat", "decode", TOKEN, 0),
            "chat-decode-722b2613c9bb89bb05f8",
        ),
    ],
)
def test_names_of_standing_objects_are_pinned(got: str, want: str) -> None:
    assert want == got


def test_labels_that_select_standing_objects_are_pinned() -> None:
    assert {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": "chat",
        "app.kubernetes.io/component": "decode",
    } == identity.role_selector("chat", "decode")
    assert {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": "chat",
    } == identity.deployment_selector("chat")


def test_every_key_is_written_once() -> None:
    keys = [
        value
        for name, value in vars(identity).items()
        if name.startswith(("LABEL_", "ANNOTATION_", "KUEUE_", "ENV_")) and "/" in str(value)
    ]
    assert len(keys) == len(set(keys))


def test_a_selectors_text_does_not_depend_on_order() -> None:
    assert "a=1,b=2" == identity.selector_text({"b": "2", "a": "1"})
    assert identity.selector_text({"a": "1", "b": "2"}) == identity.selector_text(
        {"b": "2", "a": "1"}
    )


@given(deployment=names, role=names, ordinal=st.integers(0, 1023))
def test_group_and_probe_names_are_dns_labels(deployment: str, role: str, ordinal: int) -> None:
    for name in (
        identity.group_name(deployment, role, TOKEN),
        identity.batch_group_name(deployment, role, TOKEN, ordinal),
        identity.probe_name(deployment, role, TOKEN),
    ):
        assert DNS_LABEL.fullmatch(name), name


@given(
    st.lists(st.tuples(st.text("abcdef0123456789", min_size=1), st.integers(0, 1023)), min_size=2)
)
def test_each_ordinal_of_each_batch_has_its_own_group(seats: list[tuple[str, int]]) -> None:
    groups = {seat: identity.batch_group_name("chat", "decode", *seat) for seat in seats}
    assert len(set(seats)) == len(set(groups.values()))


def test_long_probe_names_stay_apart() -> None:
    stem = "d" * 40
    one, other = (identity.probe_name(stem, role, TOKEN) for role in ("server-a", "server-b"))
    assert one != other
    assert 63 >= len(one)
