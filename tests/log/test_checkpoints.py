"""The small text files, as Kafka writes and reads them."""

import contextlib
from random import Random

import pytest

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import TopicId, TopicPartition, uuid_bytes
from headrace.log.checkpoints import (
    decode_aborted,
    decode_clean_shutdown,
    decode_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_aborted,
    encode_clean_shutdown,
    encode_epochs,
    encode_offsets,
    encode_partition_metadata,
)
from headrace.log.file_names import (
    CLEANED,
    DELETE_FOLDER,
    marked_folder,
    parse_partition_folder,
    parse_segment_file,
)
from headrace.log.log_directory import LogDirectory
from headrace.log.meta_properties import MetaProperties, decode_meta_properties
from headrace.log.storage import Storage
from headrace.log.system_disk import SystemDisk

TOPIC_ID = TopicId(uuid_bytes("WkBSDdAwRBSRka2lbIPkDQ"))


def test_offsets():
    offsets = {TopicPartition("b.c", 1): 7, TopicPartition("a", 0): 2**62}
    data = encode_offsets(offsets)
    assert data.split(b"\n")[:3] == [b"0", b"2", b"a 0 4611686018427387904"]
    assert data.split(b"\n")[3].split() == [b"b.c", b"1", b"7"], "Kafka splits at white space"
    assert decode_offsets(data) == offsets
    assert decode_offsets(b"0\n2\na 0 4611686018427387904\nb.c 1 7\n") == offsets, "as Kafka writes it"
    assert decode_offsets(b"") == {}
    assert decode_offsets(b"0\n0\n") == {}


@pytest.mark.parametrize(
    "data",
    [b"1\n0\n", b"0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"0\n1\na 0 -1\n", b"\xff\n0\n"],
)
def test_broken_offsets_are_told(data):
    with pytest.raises(InvalidBytesError):
        decode_offsets(data)


def test_no_bit_of_a_checkpoint_flips_unnoticed():
    data = encode_offsets({TopicPartition("trimmed", 0): 137, TopicPartition("t", 12): 1480})
    for at in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(InvalidBytesError):
            decode_offsets(bytes(flipped))


def test_a_checkpoint_that_is_cut_or_doubled_is_told():
    offsets = {TopicPartition("trimmed", 0): 137, TopicPartition("t", 12): 1480}
    data = encode_offsets(offsets)
    for at in range(1, len(data)):
        for damaged in (data[:at], data + data[at:]):
            with contextlib.suppress(InvalidBytesError):
                assert decode_offsets(damaged) == offsets, "only white space at the end is missing or more"


def test_seals_of_transaction_indexes():
    seals = {0: (3, 2**32 - 1), 2**40: (1, 0)}
    assert decode_aborted(encode_aborted(seals)) == seals
    assert decode_aborted(encode_aborted({})) == {}
    with pytest.raises(InvalidBytesError):
        decode_aborted(encode_aborted(seals).replace(b"0 3 ", b"0 2 "))


def test_epochs():
    data = encode_epochs([(0, 0), (3, 100)])
    assert data == b"0\n2\n0 0\n3 100\n"
    assert decode_epochs(data) == [(0, 0), (3, 100)]


@pytest.mark.parametrize("data", [b"0\n2\n3 0\n2 10\n", b"0\n2\n2 10\n3 5\n"])
def test_epochs_that_do_not_rise_are_told(data):
    with pytest.raises(InvalidBytesError):
        decode_epochs(data)


def test_partition_metadata():
    data = encode_partition_metadata(TOPIC_ID)
    assert data == b"version: 0\ntopic_id: WkBSDdAwRBSRka2lbIPkDQ"
    assert decode_partition_metadata(data) == TOPIC_ID


@pytest.mark.parametrize(
    "data", [b"", b"version: 1\ntopic_id: WkBSDdAwRBSRka2lbIPkDQ", b"version: 0\ntopic_id: Wk"]
)
def test_broken_partition_metadata_is_told(data):
    with pytest.raises(InvalidBytesError):
        decode_partition_metadata(data)


def test_clean_shutdown():
    assert encode_clean_shutdown(12) == b'{"version":0,"brokerEpoch":12}'
    assert decode_clean_shutdown(encode_clean_shutdown(12)) == 12
    assert [decode_clean_shutdown(data) for data in (b"", b"{", b"[]", b'{"brokerEpoch":"x"}')] == [-1] * 4


def test_meta_properties_as_kafka_writes_them():
    data = (
        b"#\n#Sun Nov 15 10:08:23 UTC 2026\nnode.id=1\ndirectory.id=XcJyMh_fB4VjpskcDFaMZw\nversion=1\n"
        b"cluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
    )
    meta = decode_meta_properties(data)
    assert meta == MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", 1, uuid_bytes("XcJyMh_fB4VjpskcDFaMZw"))
    assert decode_meta_properties(meta.encode()) == meta
    for at in range(8 * len(meta.encode()) - 8):
        flipped = bytearray(meta.encode())
        flipped[at // 8] ^= 1 << at % 8
        with contextlib.suppress(InvalidBytesError):
            assert decode_meta_properties(bytes(flipped)) == meta, "another line break says the same"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"version=0\nbroker.id=1\n", "version '0'"),
        (b"version=1\nnode.id=1\ncluster.id=c\n", "directory.id"),
        (b"version=1\nnode.id=x\ncluster.id=c\ndirectory.id=XcJyMh_fB4VjpskcDFaMZw\n", "'x'"),
    ],
)
def test_broken_meta_properties_are_told(data, said):
    with pytest.raises(InvalidBytesError, match=said):
        decode_meta_properties(data)


def test_names_of_files():
    assert parse_segment_file("00000000000000000042.log") == (42, ".log", "")
    assert parse_segment_file("00000000000000000042.timeindex.cleaned") == (42, ".timeindex", CLEANED)
    assert parse_segment_file("leader-epoch-checkpoint") is None
    assert parse_segment_file("00000000000000000042-0000000001.checkpoint") is None


def test_names_of_folders():
    partition = TopicPartition("a-b.c", 12)
    assert parse_partition_folder("a-b.c-12") == (partition, "")
    name = marked_folder(partition, "0" * 32, DELETE_FOLDER)
    assert name == f"a-b.c-12.{'0' * 32}-delete"
    assert parse_partition_folder(name) == (partition, DELETE_FOLDER)
    assert parse_partition_folder("lost+found") is None
    assert len(marked_folder(TopicPartition("t" * 249, 12), "0" * 32, DELETE_FOLDER)) == 255


def test_a_damaged_identity_is_told_with_its_file_and_the_way_out(tmp_path):
    (tmp_path / "meta.properties").write_text("version=0\n")
    with pytest.raises(InvalidBytesError) as told:
        LogDirectory(str(tmp_path), Storage(SystemDisk(), Random(1))).lock()
    assert str(told.value).startswith(f"{tmp_path}/meta.properties is damaged: ")
    assert "Bring it back from a copy" in str(told.value)
