"""The console in Debian's Chromium: every page and dialog, hostile contents, phones, accessibility by axe.

CI has each page once, wide and on a phone, and what is hostile; the rest, and Apache Kafka, have a command of
their own.
"""

from collections.abc import Iterator

import pytest

from headrace.console.cluster_connection import ClusterSpec
from tests.compat import prepare
from tests.compat.clients.face import eventually
from tests.console.browsing import (
    EITHER,
    GROUP,
    MARKUP,
    console_of,
    filled_cluster,
    press,
    running_chromium,
    show,
)
from tests.console.chromium import Chromium, Tab
from tests.console.registered import fill_registered
from tests.console.visitors import running_console
from tests.schemas.schema_registry import SchemaRegistry

pytestmark = [pytest.mark.chromium, pytest.mark.timeout(600)]

PAGES = {
    "": "Overview",
    "topics": "Topics",
    "topics/orders/messages": "orders",
    "topics/orders/partitions": "orders",
    "topics/orders/groups": "orders",
    "topics/orders/settings": "orders",
    "topics/orders/keys": "orders",
    "groups": "Groups",
    f"groups/{GROUP.replace('/', '%2F')}": GROUP,
    "brokers": "Brokers",
    "brokers/1?q=retention": "Broker 1",  # some of its settings: all are many for axe
    "pipelines": "Pipelines",
    "moves": "Reassignments",
    "transactions": "Transactions",
    "topics/payments/messages": "payments",
    "schemas": "Schemas",
    "schemas/subject/payments-value?version=2&with=1": "payments-value",
    "schemas/id/1": "Schema 1",
    "access/acls": "Access",
    "access/users": "Access",
    "access/tokens": "Access",
    "access/quotas": "Access",
}


DIALOGS = (
    ("topics", "New topic"),
    (
        "topics/orders/partitions",
        "Produce",
        "Add partitions",
        "Elect preferred leaders",
        "Delete old records",
        "Delete all records",
        "Delete topic",
    ),
    ("topics/orders/settings", "edit"),
    (f"groups/{GROUP.replace('/', '%2F')}", "Reset offsets", "Delete", "delete offsets"),
    ("brokers/1?q=retention", "edit"),
    ("moves", "Move a partition"),
    ("schemas", "Register schema"),
    ("access/users", "New user"),
    ("access/quotas", "New quota"),
)
"""Pages, and the buttons on each that open one."""


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


@pytest.fixture(scope="module")
def axe() -> str:
    try:
        return prepare.axe().read_text()
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))


def visit_all(tab: Tab, console: str) -> Iterator[str]:
    """Every page in turn, once it is there."""
    for path, title in PAGES.items():
        show(tab, f"{console}/{path}", title)
        if path.endswith("messages"):
            tab.until("document.querySelectorAll('.message').length >= 10")
        if path.startswith("topics/payments"):
            tab.js("document.querySelector('.message').open = true")
            tab.until("document.querySelector('.message .json')?.innerText.includes('4000-9')")
        if path == "pipelines":
            tab.until("document.querySelectorAll('.graph .node').length === 5")
            tab.until("document.querySelectorAll('.letter').length === 2")
        yield path or "overview"


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_every_page_is_shown_fits_and_is_for_everybody(
    browser: Chromium, console: str, axe: str, width: int, scheme: str
) -> None:
    """Wide and on a phone: no exception, no broken policy, nothing wider than the window; and axe finds
    names, roles, contrast and order as those need them who cannot see or point.
    """
    tab = browser.tab(width=width, scheme=scheme)
    tab.call("Page.setBypassCSP", enabled=True)  # axe adds a style of its own
    flaws: list[str] = []
    for path in visit_all(tab, console):
        flaws += [f"{path}: {each}" for each in flaws_of(tab, axe)]
    assert not flaws, "\n".join(flaws)
    assert tab.problems == []


def flaws_of(tab: Tab, axe: str) -> list[str]:
    """What is wrong with what is shown: too wide, or for those who cannot see or point."""
    found = ["it is wider than the window"] if tab.js("document.body.scrollWidth > innerWidth") else []
    if not tab.js("Boolean(window.axe)"):
        tab.js(axe)
    return found + tab.js(
        "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map("
        "v => v.id + ': ' + v.nodes.map(n => n.target.join(' ')).slice(0, 3).join(', ')))"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1440, "dark"), (390, "light")])
def test_every_dialog_fits_and_is_for_everybody(
    browser: Chromium, console: str, axe: str, width: int, scheme: str
) -> None:
    tab = browser.tab(width=width, scheme=scheme)
    tab.call("Page.setBypassCSP", enabled=True)
    flaws: list[str] = []
    for path, *buttons in DIALOGS:
        show(tab, f"{console}/{path}", PAGES[path])
        for button in buttons:
            if tab.js("Boolean(document.querySelector('.menu'))"):
                tab.js("document.querySelector('.menu').open = true")
            tab.click(button)
            tab.until("Boolean(document.querySelector('dialog[open]'))")
            flaws += [f"{path}, {button}: {each}" for each in flaws_of(tab, axe)]
            tab.js("document.querySelector('dialog').close()")
            tab.until("!document.querySelector('dialog')")
    assert not flaws, "\n".join(flaws)
    assert tab.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 390])
def test_no_page_breaks_the_policy(browser: Chromium, console: str, width: int) -> None:
    """With the policy in force, as browsers have it."""
    tab = browser.tab(width=width)
    assert len(list(visit_all(tab, console))) == len(PAGES)
    assert tab.problems == []


def test_hostile_contents_are_shown_and_do_nothing(browser: Chromium, console: str) -> None:
    tab = browser.tab()
    show(tab, f"{console}/topics/hostile/messages", "hostile")
    tab.until("document.querySelectorAll('.message').length === 5")
    tab.js("document.querySelectorAll('.message').forEach(each => { each.open = true; })")
    tab.until("document.querySelectorAll('.message-body pre').length >= 10")
    for kind in ("TEXT", "HEX"):
        buttons = "[...document.querySelectorAll('.choice button')]"
        tab.js(f"{buttons}.filter(b => b.textContent === '{kind}').forEach(b => b.click())")
    tab.js("document.querySelectorAll('.choice button:first-child').forEach(b => b.click())")
    text = tab.js("document.querySelector('main').innerText")
    assert MARKUP in text
    assert "\u27e8U+202E\u27e9gnp.exe" in text
    assert "\u27e8ESC\u27e9[31m" in text
    assert tab.js("document.querySelectorAll('main img, main script, main b').length") == 0
    assert tab.js("document.title") == "hostile · headrace console"
    show(tab, f"{console}/groups", "Groups")
    tab.until_text(GROUP)
    show(tab, f"{console}/pipelines", "Pipelines")
    tab.until("document.querySelectorAll('.letter').length === 2")
    tab.js("document.querySelectorAll('.letter details').forEach(each => { each.open = true; })")
    tab.until("document.querySelectorAll('.letter .reason').length === 2")
    assert MARKUP in tab.js("document.querySelector('.letter .reason').innerText")
    assert tab.js("document.querySelectorAll('main img, main script, main b').length") == 0
    assert tab.problems == []


def test_what_somebody_is_at_stays_when_a_page_is_drawn_anew(browser: Chromium, console: str) -> None:
    """The focus, what is open, what is selected; and nothing is touched that is as it was."""
    tab = browser.tab()
    show(tab, console, "Overview")
    tab.js(
        "import('/assets/dom.js').then(({h, redraw}) => { window.box = h('div'); document.body.append(box); "
        "window.draw = (lag, ...names) => redraw(box, names.map((n) => h('details', {'data-id': n}, "
        "h('summary', {'data-id': n}, `${n} ${lag}`), h('a', {href: `/c/${n}`}, 'to it')))); "
        "draw(1, 'a', 'b'); })"
    )
    tab.until("Boolean(window.box?.querySelector('a'))")
    tab.js("box.children[1].open = true; box.querySelectorAll('a')[1].focus(); window.kept = box.children[1]")
    tab.js("draw(1, 'a', 'b')")
    assert tab.js("box.children[1] === kept"), "nothing has changed"
    tab.js("draw(2, 'new', 'a', 'b')")
    assert tab.js("box.innerText.includes('b 2') && box.children.length === 3")
    assert tab.js("[...box.children].map(e => e.open)") == [False, False, True]
    assert tab.js("document.activeElement.getAttribute('href')") == "/c/b"
    tab.js("getSelection().selectAllChildren(box.children[2])")
    tab.js("draw(3, 'a', 'b')")
    assert tab.js("box.innerText.includes('b 2')"), "it is being copied"
    tab.js("getSelection().removeAllRanges()")
    tab.js("draw(3, 'a', 'b')")
    assert tab.js("box.innerText.includes('b 3')")
    assert tab.problems == []


@pytest.mark.slow
def test_a_page_cannot_be_made_to_run_what_it_shows(browser: Chromium, console: str) -> None:
    """The policy is the second lock: even code of the page could not make markup of a text."""
    tab = browser.tab()
    show(tab, f"{console}/topics", "Topics")
    attempt = "document.body.innerHTML = '<b>x</b>'"
    refusal = tab.js(f"(() => {{ try {{ {attempt}; return 'done'; }} catch (e) {{ return e.name; }} }})()")
    assert refusal == "TypeError"


@pytest.mark.slow
def test_addresses_that_lead_nowhere_say_so(browser: Chromium, console: str) -> None:
    tab = browser.tab()
    show(tab, f"{console}/nothing", "There is no such page")
    show(tab, f"{console}er/topics", "There is no such cluster")
    tab.until_text("knows no cluster cer.")
    tab.click("To the overview")
    tab.until("document.querySelector('main h1')?.textContent === 'Overview'")
    assert tab.js("location.pathname") == "/c"
    assert tab.problems == []


@pytest.mark.slow
def test_names_are_jumped_to(browser: Chromium, console: str) -> None:
    tab = browser.tab()
    show(tab, console, "Overview")
    tab.js("[...document.querySelectorAll('button')].find(b => b.innerText.includes('Jump')).click()")
    tab.until("Boolean(document.querySelector('dialog[open] .jump li'))")
    tab.fill("dialog input", "orders-d")
    tab.until("document.querySelectorAll('.jump li').length === 1")
    tab.js("document.querySelector('.jump a').click()")
    tab.until("document.querySelector('main h1')?.textContent === 'orders-dead'")
    assert tab.problems == []


@pytest.mark.slow
def test_keys_lead_through_the_console(browser: Chromium, console: str) -> None:
    tab = browser.tab()
    show(tab, console, "Overview")

    press(tab, "g")
    press(tab, "t")
    tab.until("location.pathname === '/c/topics'")
    tab.until("document.querySelector('main h1')?.textContent === 'Topics'")
    press(tab, "/")
    tab.until("document.activeElement.type === 'search'")
    tab.fill("input[type=search]", "orders-d")
    tab.until("document.querySelectorAll('.rows tbody tr').length === 1")
    assert tab.js("location.search") == "?q=orders-d"
    tab.click("Lag", "th button")
    assert tab.js("location.search") == "?q=orders-d&sort=-lag"
    tab.reload()
    tab.until("document.querySelector('th[aria-sort=descending]')?.innerText.includes('Lag')")
    tab.until("document.querySelectorAll('.rows tbody tr').length === 1")
    tab.js("document.querySelector('.rows tbody a').focus()")
    press(tab, "?")
    tab.until("Boolean(document.querySelector('dialog[open] .keys'))")


@pytest.mark.slow
def test_the_assets_come_from_one_address_and_are_few(browser: Chromium, console: str) -> None:
    tab = browser.tab()
    show(tab, console, "Overview")
    entries = tab.js("performance.getEntriesByType('resource').map(e => [e.name, e.transferSize])")
    assert all(name.startswith(console.removesuffix("/c")) for name, _ in entries)
    assert sum(size for _, size in entries) < 100_000


@pytest.mark.slow
def test_ten_thousand_topics_stay_usable(browser: Chromium, console: str) -> None:
    """The table has the rows that are seen, wherever one scrolls to."""
    tab = browser.tab()
    show(tab, f"{console}/topics", "Topics")
    tab.js(
        "import('/assets/table.js').then(({Table}) => { const rows = Array.from({length: 10000}, (_, i) => "
        "({name: `topic-${String(i).padStart(5, '0')}`})); const table = new Table({label: 'many', rows, "
        "search: {placeholder: 'Search many', text: r => r.name}, columns: [{id: 'name', title: 'Name', "
        "sort: r => r.name, cell: r => r.name}]}); "
        "document.querySelector('main').replaceChildren(table.element); table.start(); table.arrange(); })"
    )
    tab.until("document.querySelectorAll('.rows tbody tr').length > 20")
    assert tab.js("document.querySelectorAll('.rows tbody tr').length") < 200
    assert tab.js("document.documentElement.scrollHeight") > 300_000
    tab.js("scrollTo(0, document.documentElement.scrollHeight)")
    tab.until("document.querySelector('.rows').innerText.includes('topic-09999')")
    assert tab.js("document.querySelectorAll('.rows tbody tr').length") < 200
    tab.fill("input[aria-label='Search many']", "topic-0777")
    tab.until("document.querySelectorAll('.rows tbody tr').length === 10")


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_named(browser: Chromium) -> None:
    with running_console([ClusterSpec("c", {"bootstrap.servers": "127.0.0.1:1"})]) as (host, port):
        tab = browser.tab()
        tab.go(f"http://{host}:{port}/c")
        tab.until_text("This cannot be shown now")
        eventually(lambda: "127.0.0.1:1" in tab.js("document.body.innerText"), "it says where it looked")
