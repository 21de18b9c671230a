"""The record's stored text: pinned, because earlier and later versions read it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gpustack_deploy.model.errors import RecordUnreadable
from gpustack_deploy.model.record import (
    Batch,
    Departure,
    LockState,
    RoleRecord,
    Slot,
    SlotPhase,
    Writer,
    dump_record,
    load_record,
)

pytestmark = pytest.mark.check

RECORD = RoleRecord(
    deployment="chat",
    role="decode",
    role_kinds={"prefill": "Prefill", "decode": "Decode"},
    front_role="prefill",
    claim="c1",
    writer=Writer("acme", "serving", "prod", "urn:1"),
    lock=LockState("process 7", "host", "boot", 7, "ns/99", renewals=4, generation=2),
    slot=Slot(
        ordinal=1,
        phase=SlotPhase.WAITING_FOR_ADMISSION,
        departures=(Departure(1, "g-old", {"u-old": "chat-decode-r1-m0"}, "w-old"),),
        token="t1",
        fingerprints=("f0", "f1"),
        current_member_uids={"chat-decode-r1-m0": "u0"},
        current_workload_uid="w1",
    ),
    departures=(Departure(2, "g2", {"u2": "chat-decode-r2-m0"}),),
    batch=Batch("b1", (3, 4)),
    parked=(0,),
    achieved=3,
    cluster_uid="kube-system-uid",
    cluster_ca="digest",
    namespace_uid="namespace-uid",
    written_by="0.1.0",
    former_uid="lost-uid",
    uid="record-uid",
    resource_version="42",
)

GOLDEN = (
    '{"achieved":3,"batch":{"ordinals":[3,4],"token":"b1"},"claim":"c1","clusterCa":"digest",'
    '"clusterUid":"kube-system-uid","departures":[{"groupName":"g2","members":{"u2":'
    '"chat-decode-r2-m0"},"ordinal":2,"workloadUid":""}],"deployment":"chat","formerUid":'
    '"lost-uid","frontRole":"prefill","lock":{"bootId":"boot","generation":2,"holder":"process 7",'
    '"host":"host","pid":7,"processStart":"ns/99","renewals":4},"namespaceUid":"namespace-uid",'
    '"parked":[0],'
    '"role":"decode","roleKinds":{"decode":"Decode","prefill":"Prefill"},"schemaVersion":1,"slot":{'
    '"currentMemberUids":{"chat-decode-r1-m0":"u0"},"currentWorkloadUid":"w1","departures":[{'
    '"groupName":"g-old","members":{"u-old":"chat-decode-r1-m0"},"ordinal":1,"workloadUid":"w-old"'
    '}],"fingerprints":["f0","f1"],"ordinal":1,"phase":"WaitingForAdmission",'
    '"token":"t1"},"writer":{"organization":"acme","project":"serving","stack":"prod","urn":"urn:1"'
    '},"writtenBy":"0.1.0"}'
)


def load(text: str) -> RoleRecord:
    return load_record(text, name="chat-decode", uid="record-uid", resource_version="42")


def edited(**changes: Any) -> str:
    return json.dumps({**json.loads(GOLDEN), **changes})


def without(key: str) -> str:
    return json.dumps({name: item for name, item in json.loads(GOLDEN).items() if name != key})


def test_the_stored_text_is_pinned() -> None:
    assert GOLDEN == dump_record(RECORD)


def test_the_stored_text_is_read_back_whole() -> None:
    assert RECORD == load(GOLDEN)


def test_a_record_at_rest_is_read_back_whole() -> None:
    rest = replace(RECORD, slot=None, batch=None, departures=(), lock=LockState())
    assert rest == load(dump_record(rest))


def test_the_objects_own_identity_is_not_in_its_text() -> None:
    elsewhere = replace(RECORD, uid="another", resource_version="43")
    assert GOLDEN == dump_record(elsewhere)


def test_names_and_uids_are_stored_as_they_are() -> None:
    odd = Departure(0, "g", {"some_uid_with_bars": "a_name"})
    record = replace(RECORD, role_kinds={"a_b": "Server"}, departures=(odd,))
    again = load(dump_record(record))
    assert ({"a_b": "Server"}, (odd,)) == (again.role_kinds, again.departures)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "it is no JSON", id="an empty text"),
        pytest.param("{", "it is no JSON", id="half a text"),
        pytest.param("[]", "it is no JSON object", id="a list"),
        pytest.param("null", "it is no JSON object", id="nothing"),
        pytest.param("{}", "its schemaVersion is None", id="an empty object"),
        pytest.param(edited(schemaVersion="1"), "its schemaVersion is '1'", id="a text version"),
        pytest.param(edited(schemaVersion=0), "its schemaVersion is 0", id="version zero"),
        pytest.param(without("slot"), "KeyError: 'slot'", id="a field missing"),
        pytest.param(edited(slot={"ordinal": 1}), "KeyError: 'phase'", id="half a slot"),
        pytest.param(edited(slot=7), "TypeError", id="a slot that is a number"),
        pytest.param(edited(achieved="many"), "ValueError", id="a count that is a word"),
        pytest.param(edited(departures=None), "TypeError", id="no list of departures"),
        pytest.param(edited(roleKinds=None), "TypeError", id="no kinds"),
        pytest.param(edited(writer={"stacks": "x"}), "TypeError", id="another writer's field"),
        pytest.param(edited(lock=None), "AttributeError", id="no lock"),
        pytest.param(
            edited(slot={**json.loads(GOLDEN)["slot"], "phase": "Parked"}),
            "ValueError: 'Parked' is not a valid SlotPhase",
            id="a phase nobody knows",
        ),
    ],
)
def test_what_cannot_be_understood_is_refused_never_read_as_empty(text: str, said: str) -> None:
    with pytest.raises(RecordUnreadable) as refused:
        load(text)
    assert "chat-decode" == refused.value.name
    assert said in str(refused.value)
    assert "restore it from a backup" in str(refused.value)


def test_a_newer_record_is_refused_with_the_version_that_wrote_it() -> None:
    with pytest.raises(RecordUnreadable, match=r"schemaVersion 2 was written by .* 9\.0\.0"):
        load(edited(schemaVersion=2, writtenBy="9.0.0", slot={"somethingNew": 1}))


def test_a_newer_record_of_an_unnamed_writer_is_refused_as_well() -> None:
    with pytest.raises(RecordUnreadable, match="of an unknown version, this one reads up to 1"):
        load(edited(schemaVersion=2, writtenBy=""))


def test_a_writer_is_named_as_its_stack() -> None:
    assert "acme/serving/prod" == str(RECORD.writer)
    assert "serving/prod" == str(Writer(project="serving", stack="prod"))
    assert "" == str(Writer())
