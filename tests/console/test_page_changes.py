"""Changes by the console's pages in Chromium, with headrace and with Apache Kafka: a command of their own."""

import json
import uuid
from collections.abc import Iterator

import pytest

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, Consumer, OffsetAndMetadata, OffsetSpec, Producer
from tests.compat.clients.face import eventually
from tests.console.browsing import EITHER, console_of, filled_cluster, press, running_chromium, show
from tests.console.chromium import Chromium
from tests.console.registered import PROTO, fill_registered
from tests.schemas.schema_registry import SchemaRegistry

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=EITHER)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with filled_cluster(request.param, tmp_path_factory) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="module")
def double(bootstrap: str) -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as double:
        fill_registered(bootstrap, double)
        yield double


@pytest.fixture(scope="module")
def console(bootstrap: str, double: SchemaRegistry) -> Iterator[str]:
    with console_of(bootstrap, double) as url:
        yield url


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with running_chromium(tmp_path_factory) as browser:
        yield browser


def test_messages_are_searched_followed_and_produced(browser: Chromium, console: str) -> None:
    tab = browser.tab()
    show(tab, f"{console}/topics/orders/messages", "orders")
    tab.until("document.querySelectorAll('.message').length >= 20")
    tab.click("Filters")
    tab.fill(".filter-grid input:nth-child(4)", "n > 17")
    tab.until("document.querySelectorAll('.message').length === 2")
    assert "json=n+%3E+17" in tab.js("location.search"), "the filter is in the address"
    tab.reload()
    tab.until("document.querySelectorAll('.message').length === 2")
    tab.fill(".filter-grid input:nth-child(4)", "")
    tab.fill("select[aria-label='Begin at']", "live")
    tab.until_text("Waiting for messages")
    tab.click("Produce")
    word = uuid.uuid4().hex
    tab.fill("dialog textarea", word)
    tab.js("document.querySelector('dialog button[type=submit]').click()")
    tab.until(f"document.querySelector('.message .val')?.textContent.includes({json.dumps(word)})")
    assert tab.problems == []


def test_schemas_are_compared_registered_and_deleted(
    browser: Chromium, console: str, double: SchemaRegistry
) -> None:
    tab = browser.tab()
    show(tab, f"{console}/schemas", "Schemas")
    submit = "document.querySelector('dialog button[type=submit]').click()"
    tab.click("Register schema")
    tab.fill("dialog input[name=subject]", "made-value")
    tab.fill("dialog textarea", PROTO)
    tab.fill("dialog select", "PROTOBUF")
    tab.click("Is it compatible?")
    tab.until_text("It is compatible.")
    tab.js(submit)
    tab.until("document.querySelector('main h1')?.textContent === 'made-value'")
    tab.click("New version")
    tab.fill("dialog textarea", PROTO.replace("int64 n = 1;", "int64 n = 1; string note = 2;\n"))
    tab.js(submit)
    tab.until("document.querySelector('[aria-label=Version]')?.value === '2'")
    tab.fill("select[aria-label='Compared with']", "1")
    tab.until("document.querySelectorAll('.difference ins').length === 2")
    assert "note" in tab.js("document.querySelector('.difference ins').innerText")
    assert "with=1" in tab.js("location.search"), "what is compared is in the address"
    tab.click("Change")
    tab.fill("dialog select", "FULL")
    tab.js(submit)
    tab.until_text("Compatibility: FULL")
    assert double.levels["made-value"] == "FULL"
    tab.js("document.querySelector('.menu').open = true")
    tab.click("Delete subject", ".menu button")
    tab.fill("dialog input[name=confirm]", "made-value")
    tab.js(submit)
    tab.until("location.pathname === '/c/schemas'")
    tab.until("!document.querySelector('.rows')?.innerText.includes('made-value')")
    assert tab.problems == []


def test_what_a_schema_has_read_is_produced_again(browser: Chromium, console: str, bootstrap: str) -> None:
    """As it was where it is not touched; written by its schema where it is."""
    place = TopicPartition("payments", 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        before = admin.end_offsets([place])[place]
    tab = browser.tab()
    for change in ("", '{"n": 77, "card": {"number": "typed"}}'):
        show(tab, f"{console}/topics/payments/messages?from=oldest", "payments")
        tab.until("document.querySelectorAll('.message').length >= 10")
        tab.js("document.querySelector('.message').open = true")
        tab.click("Produce again")
        if change:
            tab.fill("dialog textarea", change)
        tab.js("document.querySelector('dialog button[type=submit]').click()")
        tab.until("!document.querySelector('dialog')")
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([place])
        consumer.seek(place, 0)
        first, *_ = records = consumer.poll(30)
        eventually(lambda: records.extend(consumer.poll(1)) or len(records) >= before + 2, "both are there")
    assert records[before].value == first.value
    assert records[before + 1].value == first.value[:5] + b"\x9a\x01\x0atyped"
    assert tab.problems == []


def test_a_topic_is_made_changed_and_deleted(browser: Chromium, console: str) -> None:
    tab = browser.tab()
    name = f"made-{uuid.uuid4().hex[:6]}"
    show(tab, f"{console}/topics", "Topics")
    tab.click("New topic")
    tab.fill("dialog input[name=name]", name)
    tab.click("Create")
    tab.until(f"document.querySelector('main h1')?.textContent === {json.dumps(name)}")
    tab.click("Settings")
    tab.fill("input[aria-label='Search settings']", "retention.ms")
    edit = "document.querySelector('button[aria-label=\"Edit retention.ms\"]')"
    tab.until(f"Boolean({edit})")
    tab.js(f"{edit}.click()")
    tab.fill("dialog .field input", "3600000")
    tab.click("Save")
    tab.until("document.querySelector('.setting.own')?.innerText.includes('1 h')")
    tab.js("document.querySelector('.menu').open = true")
    tab.click("Delete topic", ".menu button")
    tab.fill("dialog input[name=confirm]", "something else")
    tab.js("document.querySelector('dialog button[type=submit]').click()")
    tab.until_text("That is not the name.")
    tab.fill("dialog input[name=confirm]", name)
    tab.js("document.querySelector('dialog button[type=submit]').click()")
    tab.until("location.pathname === '/c/topics'")
    tab.until("document.querySelector('main h1')?.textContent === 'Topics'")
    tab.until(f"!document.querySelector('.rows').innerText.includes({json.dumps(name)})")
    assert tab.problems == []


def test_a_group_is_reset_by_a_plan_that_is_seen_first(
    browser: Chromium, console: str, bootstrap: str
) -> None:
    group = f"g-{uuid.uuid4().hex[:6]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition("orders", 0): OffsetAndMetadata(7)})
        tab = browser.tab()
        show(tab, f"{console}/groups/{group}", group)
        tab.click("Reset offsets")
        tab.click("Show the plan")
        tab.until("document.querySelectorAll('.plan tbody tr').length === 1")
        assert admin.group_offsets(group)[TopicPartition("orders", 0)].offset == 7
        tab.js("document.querySelector('.plan input').value = '2'")
        tab.click("Reset")
        place = TopicPartition("orders", 0)
        eventually(lambda: admin.group_offsets(group)[place].offset == 2, "it is done as it was shown")
    assert tab.problems == []


def test_what_cannot_be_undone_is_asked_first(browser: Chromium, console: str, bootstrap: str) -> None:
    name = f"t-{uuid.uuid4().hex[:6]}"
    place = TopicPartition(name, 0)
    submit = "document.querySelector('dialog button[type=submit]').click()"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions=1)
        with Producer(bootstrap_servers=bootstrap) as producer:
            for _ in range(5):
                producer.send(name, b"x").result(30)
        other = TopicPartition("orders", 0)
        admin.alter_group_offsets(name, {place: OffsetAndMetadata(4), other: OffsetAndMetadata(3)})
        tab = browser.tab()
        show(tab, f"{console}/topics/{name}/partitions", name)
        tab.js("document.querySelector('.menu').open = true")
        tab.click("Elect preferred leaders", ".menu button")
        tab.until_text("First replicas lead everywhere")
        tab.click("Close", "dialog button")
        tab.until("!document.querySelector('dialog')")
        tab.js("document.querySelector('.menu').open = true")
        press(tab, "Escape")
        assert tab.js("document.querySelector('.menu').open") is False
        tab.js("document.querySelector('.menu').open = true")
        tab.click("Delete old records", ".menu button")
        assert tab.js("document.querySelector('.menu').open") is False, "something was chosen"
        tab.fill("dialog input[type=number]", "3")
        tab.fill("dialog input[name=confirm]", "other")
        tab.js(submit)
        tab.until_text("That is not the name.")
        assert admin.list_offsets({place: OffsetSpec.EARLIEST})[place].offset == 0
        tab.fill("dialog input[name=confirm]", name)
        tab.js(submit)
        tab.until_text("Partition 0 begins at 3 now.")
        show(tab, f"{console}/groups/{name}", name)
        tab.until("document.querySelectorAll('.topic-offsets').length === 2")
        tab.js(f"document.querySelector('[aria-label=\"Delete offsets of {name}\"]').click()")
        tab.fill("dialog input[name=confirm]", name)
        tab.js(submit)
        eventually(lambda: set(admin.group_offsets(name)) == {other}, "they are forgotten")
        tab.until("document.querySelectorAll('.topic-offsets').length === 1")
        show(tab, f"{console}/transactions", "Transactions")
        tab.click("Look now")
        tab.until_text("None was found at")
    assert tab.problems == []


def test_topics_groups_brokers_and_transactions_are_changed(
    browser: Chromium, console: str, bootstrap: str
) -> None:
    """What no other test changes by the page."""
    name = f"c-{uuid.uuid4().hex[:6]}"
    submit = "document.querySelector('dialog button[type=submit]').click()"
    tab = browser.tab()

    def choose(text: str) -> None:
        tab.js("document.querySelector('.menu').open = true")
        tab.click(text, ".menu button")

    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions=1)
        admin.alter_group_offsets(name, {TopicPartition(name, 0): OffsetAndMetadata(0)})
        with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(name, b"x").result(60)
            show(tab, f"{console}/transactions?q={name}", "Transactions")
            tab.click("abort")
            tab.js(submit)
            tab.until_text("It is aborted.")
        show(tab, f"{console}/topics/{name}/partitions", name)
        choose("Add partitions")
        tab.field("Partitions afterwards", "3")
        tab.js(submit)
        tab.until_text("The partitions are there.")
        eventually(lambda: len(admin.describe_topics(name)[0].partitions) == 3, "they are there")
        choose("Delete all records")
        tab.fill("dialog input[name=confirm]", name)
        tab.js(submit)
        tab.until_text("The records are deleted.")
        place = TopicPartition(name, 0)
        assert admin.list_offsets({place: OffsetSpec.EARLIEST})[place].offset > 0
    show(tab, f"{console}/groups/{name}", name)
    tab.click("Settings", "summary")
    tab.until("document.querySelectorAll('.setting').length > 3")
    tab.click("Delete")
    tab.fill("dialog input[name=confirm]", name)
    tab.js(submit)
    tab.until("document.querySelector('main h1')?.textContent === 'Groups'")
    setting = "compression.gzip.level"
    show(tab, f"{console}/brokers/1?q={setting}", "Broker 1")
    for value, told in (("5", "set for this broker"), ("", "edit")):
        tab.js(f"document.querySelector('[aria-label=\"Edit {setting}\"]').click()")
        if value:
            tab.field("Value", value)
        else:
            tab.js("document.querySelector('dialog input[type=checkbox]').click()")
        tab.js(submit)
        tab.until(f"document.querySelectorAll('.setting.own').length === {int(bool(value))}")
        tab.until_text(told)
    show(tab, f"{console}/moves", "Reassignments")
    tab.click("Move a partition")
    tab.field("Topic", name)
    tab.field("Replicas", "99")
    tab.js(submit)
    tab.until("document.querySelector('dialog .problem')?.textContent.length > 0")
    # What is refused is told on the page, and by the browser too.
    assert [each for each in tab.problems if "status of 40" not in each] == []


def test_dead_letters_are_sent_again(browser: Chromium, console: str, bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        place = TopicPartition("orders", 1)
        before = admin.end_offsets([place])[place]
        tab = browser.tab()
        show(tab, f"{console}/pipelines", "Pipelines")
        tab.until("document.querySelectorAll('.letter input').length === 2")
        tab.js("document.querySelectorAll('.letter input').forEach(each => each.click())")
        tab.click("Send 2 again")
        tab.until_text("2 records will be written to orders")
        tab.js("document.querySelector('dialog button[type=submit]').click()")
        eventually(lambda: admin.end_offsets([place])[place] == before + 2, "they are in their feed")
        tab.until("!document.querySelector('dialog')")
    assert tab.problems == []
