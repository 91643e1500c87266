"""Fields of requests and answers, in both ways of writing them, and answers that are not what they should be."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from sparkhaven.ingest.feeds.kafka.broker.wire import requests
from sparkhaven.ingest.feeds.kafka.broker.wire.fields import Answer, AnswerError, Writer
from sparkhaven.ingest.feeds.kafka.broker.wire.requests import FetchTerms, FetchWish, Source, id_octets, id_text

ID = bytes(range(16))
PLACE = Source("ticks", 3, id_text(ID))


@pytest.mark.parametrize("flexible", [False, True])
def test_fields_are_read_as_they_are_written(flexible: bool) -> None:
    long = "ü" * 200
    writer = Writer(flexible=flexible).int8(-1).int16(-2).int32(-3, 4).int64(-5).text("a").text("").text(long)
    octets = writer.count(300).tags().octets(b"\0" * 300).bytes()
    answer = Answer(memoryview(octets), flexible=flexible)
    assert (answer.int8(), answer.int16(), answer.int32(), answer.int32(), answer.int64()) == (-1, -2, -3, 4, -5)
    assert (answer.text(), answer.text(), answer.text()) == ("a", "", long)
    assert answer.elements() == range(300)
    answer.tags()
    answer.skip(300)
    assert answer.position == len(octets)


def test_tagged_fields_are_passed_over() -> None:
    octets = b"\x02" + b"\x00\x03abc" + b"\x81\x01\x00" + b"\x07"
    answer = Answer(memoryview(octets), flexible=True)
    answer.tags()
    assert answer.int8() == 7
    plain = Answer(memoryview(octets), flexible=False)
    plain.tags()
    assert plain.position == 0


def test_nothing_where_there_is_none() -> None:
    for octets, flexible in ((b"\xff\xff" + b"\xff\xff\xff\xff" * 2, False), (b"\0\0\0", True)):
        answer = Answer(memoryview(octets), flexible=flexible)
        assert (answer.text(), answer.elements(), answer.block()) == ("", range(-1), (len(octets), len(octets)))


@pytest.mark.parametrize(
    "read",
    [
        lambda answer: answer.int64(),
        lambda answer: answer.octets(9),
        lambda answer: answer.skip(-1),
        lambda answer: answer.elements(2),
        lambda answer: answer.block(),
        lambda answer: answer.text(),
    ],
)
def test_what_is_not_whole_is_an_error(read: Callable[[Answer], object]) -> None:
    for flexible in (False, True):
        with pytest.raises(AnswerError):
            read(Answer(memoryview(b"\x7f" * 5), flexible=flexible))
    with pytest.raises(AnswerError, match="not UTF-8"):
        Answer(memoryview(b"\0\1\xff"), flexible=False).text()
    with pytest.raises(AnswerError, match="more than five bytes"):
        Answer(memoryview(b"\xff" * 9), flexible=True).text()


def test_the_bytes_of_requests() -> None:
    wish, terms = FetchWish(258, 5, 1 << 20), FetchTerms(20, 1, 1 << 24, committed=True)
    body = requests.fetch(10, PLACE, wish, terms).body
    assert body == bytes.fromhex(
        "ffffffff00000014000000010100000001" + "00000000ffffffff" + "000000010005" + b"ticks".hex() + "00000001"
        "00000003" + "00000005" + "0000000000000102" + "ffffffffffffffff" + "00100000" + "00000000"
    )
    newer = requests.fetch(13, PLACE, wish, terms)
    assert newer.flexible and newer.body == bytes.fromhex(
        "ffffffff00000014000000010100000001" + "00000000ffffffff" + "02" + ID.hex() + "02" + "00000003" + "00000005"
        "0000000000000102" + "ffffffff" + "ffffffffffffffff" + "00100000" + "00" + "00" + "01" + "01" + "00"
    )
    assert requests.metadata(7, "ticks").body == bytes.fromhex("000000010005" + b"ticks".hex() + "00")
    assert requests.metadata(10, "ticks").body == bytes.fromhex(
        "02" + "00" * 16 + "06" + b"ticks".hex() + "00" + "000000" + "00"
    )
    assert requests.list_offsets(PLACE, -2, committed=False).body == bytes.fromhex(
        "ffffffff00" + "000000010005" + b"ticks".hex() + "0000000100000003" + "fffffffffffffffe"
    )
    assert requests.epoch_end(PLACE, 6, 5).body == bytes.fromhex(
        "000000010005" + b"ticks".hex() + "00000001000000030000000600000005"
    )


def test_ids_are_those_of_positions() -> None:
    assert id_octets(PLACE.topic_id) == ID and len(PLACE.topic_id) == 22
    assert id_text(bytes(16)) == "" and id_text(b"\xfb\xff\xbf" * 5 + b"\0") == "-_-_" * 5 + "AA"


def test_which_versions_are_spoken() -> None:
    kafka_21 = {requests.FETCH: range(11), requests.METADATA: range(8)}
    kafka_4 = {requests.FETCH: range(4, 19), requests.METADATA: range(14)}
    assert requests.version_of(requests.FETCH, kafka_21) == 10 and requests.version_of(requests.METADATA, kafka_21) == 7
    assert requests.version_of(requests.FETCH, kafka_4) == 13 and requests.version_of(requests.METADATA, kafka_4) == 10
    assert requests.version_of(requests.FETCH, kafka_4, newer=False) == 10
    assert requests.version_of(requests.FETCH, {requests.FETCH: range(10)}) is None
    assert requests.version_of(requests.LIST_OFFSETS, kafka_4) is None


READERS: list[Callable[[Answer], object]] = [
    lambda answer: requests.read_fetched(answer, 10, PLACE),
    lambda answer: requests.read_fetched(answer, 13, PLACE),
    lambda answer: requests.read_metadata(answer, 7, "ticks"),
    lambda answer: requests.read_metadata(answer, 10, "ticks"),
    requests.read_api_versions,
    requests.read_offset,
    requests.read_epoch_end,
]


@pytest.mark.parametrize("number", range(len(READERS)))
def test_any_bytes_are_an_answer_or_an_error(number: int) -> None:
    chance = Random(number)
    for _ in range(3000):
        octets = bytes(
            chance.choice([0, 0, 0, 1, 2, 5, 255, chance.randrange(256)]) for _ in range(chance.randrange(99))
        )
        for flexible in (False, True):
            with suppress(AnswerError):
                READERS[number](Answer(memoryview(octets), flexible=flexible))
