"""Metrics on the wire: our reading and writing beside Google's protobuf, and bytes that are none."""

import random
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from headrace.base.errors import InvalidBytesError
from headrace.telemetry.client_metrics import otlp
from headrace.telemetry.client_metrics.otlp import (
    DataPoint,
    TooManyPointsError,
    read_metrics_data,
    with_resource,
    write_metrics_data,
)

POINTS = [
    DataPoint("org.apache.kafka.producer.record.send.total", (), 12.0, is_total=True, is_delta=True),
    DataPoint("org.apache.kafka.producer.request.total", (("node_id", "1"),), 3.5, is_total=True),
    DataPoint("org.apache.kafka.producer.node.latency.avg", (("node_id", "1"), ("topic", "ö")), -0.25),
]


@pytest.fixture(scope="module")
def metrics_data(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The class that Google's protobuf makes of the format."""
    from grpc_tools import protoc

    source = Path(__file__).parent / "otlp_metrics.proto"
    out = tmp_path_factory.mktemp("proto") / "set.bin"
    words = ["protoc", f"-I{source.parent}", f"--descriptor_set_out={out}", str(source)]
    assert protoc.main(words) == 0
    files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("otlp.MetricsData"))


def written() -> bytes:
    return write_metrics_data(POINTS, resource={"client_rack": "r"}, start_ns=5, time_ns=9)


def test_what_is_written_is_read() -> None:
    assert read_metrics_data(written()) == POINTS
    assert read_metrics_data(b"") == []


def test_others_read_what_is_written(metrics_data: Any) -> None:
    [resource] = metrics_data.FromString(written()).resource_metrics
    assert [(each.key, each.value.string_value) for each in resource.resource.attributes] == [
        ("client_rack", "r")
    ]
    first, second, third = resource.scope_metrics[0].metrics
    assert (first.name, first.sum.is_monotonic, first.sum.aggregation_temporality) == (
        POINTS[0].name,
        True,
        1,
    )
    assert second.sum.aggregation_temporality == 2
    [point] = third.gauge.data_points
    assert (point.as_double, point.start_time_unix_nano, point.time_unix_nano) == (-0.25, 5, 9)
    assert [(each.key, each.value.string_value) for each in point.attributes] == list(POINTS[2].attributes)


def test_what_others_write_is_read(metrics_data: Any) -> None:
    data = metrics_data()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="m", unit="1")
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = 1
    point = metric.sum.data_points.add(as_int=-7, time_unix_nano=1 << 60)
    for key, value in (("s", "text"), ("i", -3), ("b", True), ("d", 0.5)):
        attribute = point.attributes.add(key=key)
        name = {str: "string_value", int: "int_value", bool: "bool_value", float: "double_value"}[type(value)]
        setattr(attribute.value, name, value)
    metric.sum.data_points.add()  # of which nothing was measured
    [found] = read_metrics_data(data.SerializeToString())
    assert found == DataPoint(
        "m", (("b", "true"), ("d", "0.5"), ("i", "-3"), ("s", "text")), -7.0, is_total=True, is_delta=True
    )


def test_attributes_are_added_to_a_resource(metrics_data: Any) -> None:
    data = written()
    more = with_resource(data, {"client_id": "c"})
    [resource] = metrics_data.FromString(more).resource_metrics
    assert [each.key for each in resource.resource.attributes] == ["client_rack", "client_id"]
    assert read_metrics_data(more) == POINTS
    bare = metrics_data()
    bare.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    [resource] = metrics_data.FromString(with_resource(bare.SerializeToString(), {"a": "b"})).resource_metrics
    assert [each.key for each in resource.resource.attributes] == ["a"]


def test_bytes_that_are_none_are_refused_and_nothing_else_happens() -> None:
    data = written()
    refused = 0
    rng = random.Random(1)
    for _ in range(3000):
        broken = bytearray(data[: rng.randrange(len(data) + 1)])
        for _ in range(rng.randrange(4)):
            if broken:
                broken[rng.randrange(len(broken))] = rng.randrange(256)
        try:
            read_metrics_data(bytes(broken))
        except InvalidBytesError:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize(
    "data", [b"\x0a\xff\xff\xff\xff\x0f", b"\x0a", b"\x80" * 11, b"\x0b", b"\x09\x00", b"\x0a\x02\x12\x05"]
)
def test_lengths_are_checked(data: bytes) -> None:
    with pytest.raises(InvalidBytesError):
        read_metrics_data(data)


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "POINTS_MAX", 2)
    with pytest.raises(TooManyPointsError, match="at most 2"):
        read_metrics_data(written())


def test_texts_are_cut_and_attributes_counted() -> None:
    many = tuple((f"k{number:02}", "v" * 1000) for number in range(40))
    point = DataPoint("n" * 1000, many, 1.0)
    [found] = read_metrics_data(write_metrics_data([point], resource={}, start_ns=0, time_ns=0))
    assert len(found.name) == otlp.TEXT_MAX
    assert len(found.attributes) == otlp.ATTRIBUTES_MAX
    assert {len(value) for _, value in found.attributes} == {otlp.TEXT_MAX}


def test_numbers_of_all_kinds() -> None:
    [found] = read_metrics_data(
        write_metrics_data([DataPoint("m", (), float("inf"))], resource={}, start_ns=0, time_ns=0)
    )
    assert found.value == float("inf")
