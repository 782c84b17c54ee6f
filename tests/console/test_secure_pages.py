"""The console in Chromium where people log in over SASL_SSL: what each sees, changes of access, refusals."""

from collections.abc import Iterator

import pytest

from headrace.console.cluster_connection import ClusterSpec
from tests.console.browsing import EITHER, running_chromium
from tests.console.chromium import Chromium, Tab
from tests.console.secured import READER, READERS, Secured, secured
from tests.console.visitors import running_console

pytestmark = [pytest.mark.chromium, pytest.mark.timeout(600)]

PAGES = {
    "topics": "Topics",
    "topics/orders/partitions": "orders",
    "topics/orders/settings": "orders",
    "groups": "Groups",
    "brokers": "Brokers",
    "brokers/1": "Broker 1",
    "moves": "Reassignments",
    "transactions": "Transactions",
}
SUBMIT = "document.querySelector('dialog button[type=submit]').click()"


@pytest.fixture(scope="module", params=EITHER)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(request.param, tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.fixture(scope="module")
def console(cluster: Secured) -> Iterator[str]:
    with running_console([ClusterSpec("c", cluster.settings)]) as (host, port):
        yield f"http://{host}:{port}/c"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with running_chromium(tmp_path_factory) as browser:
        yield browser


def show(tab: Tab, path: str, title: str) -> None:
    """Another page, without loading the console anew."""
    tab.js(f"history.pushState(null, '', '/c/{path}'); dispatchEvent(new PopStateEvent('popstate'))")
    tab.until(f"document.querySelector('main h1')?.textContent === '{title}'")


def log_in(tab: Tab, user: str, password: str) -> None:
    tab.until("document.querySelector('main h1')?.textContent === 'Log in to c'")
    tab.field("User", user, ".login")
    tab.field("Password", password, ".login")
    tab.click("Log in")


def done(tab: Tab) -> None:
    tab.js(SUBMIT)
    tab.until("!document.querySelector('dialog')")


def test_each_sees_and_changes_what_the_cluster_allows(
    browser: Chromium, console: str, cluster: Secured
) -> None:
    tab = browser.tab(width=390, scheme="dark")
    tab.go(console)
    log_in(tab, READER, "wrong")
    tab.until("document.querySelector('.problem')?.textContent.length > 0")
    log_in(tab, READER, READERS)
    tab.until_text("you have no right to see them")
    show(tab, "topics", "Topics")
    tab.until("document.querySelectorAll('.rows tbody tr').length === 1")
    show(tab, "topics/secrets/messages", "This cannot be shown now")
    show(tab, "topics/orders/messages", "orders")
    tab.until_text("hello")
    tab.click("Produce")
    tab.fill("dialog textarea", "not allowed")
    tab.js(SUBMIT)
    tab.until("document.querySelector('dialog .problem')?.textContent.length > 0")
    tab.click("Cancel")
    tab.click("log out")
    log_in(tab, cluster.user, cluster.password)
    for path, title in PAGES.items():
        show(tab, path, title)
    # What is refused is told on the page, and by the browser too.
    assert [each for each in tab.problems if "status of 40" not in each] == []


def test_rules_users_tokens_and_quotas_are_made_and_ended(
    browser: Chromium, console: str, cluster: Secured
) -> None:
    tab = browser.tab()
    tab.go(f"{console}/access/acls")
    log_in(tab, cluster.user, cluster.password)
    tab.click("New rule")
    tab.field("Principal", "User:<b>new</b>")
    tab.field("Operation", "read")
    tab.field("Name", "orders")
    done(tab)
    row = (
        "[...document.querySelectorAll('.rows tbody tr')].find(e => e.innerText.includes('User:<b>new</b>'))"
    )
    tab.until(f"Boolean({row})")
    tab.js(f"{row}.querySelector('button').click()")
    done(tab)
    tab.until(f"!{row}")

    show(tab, "access/users", "Access")
    tab.click("New user")
    tab.field("Name", "new")
    tab.field("Password", "of the new one")
    done(tab)
    row = "[...document.querySelectorAll('.rows tbody tr')].find(e => e.cells[0].innerText.trim() === 'new')"
    tab.until(f"Boolean({row})")
    tab.js(f"{row}.querySelector('button').click()")
    done(tab)
    tab.until(f"!{row}")

    show(tab, "access/tokens", "Access")
    tab.click("New token")
    tab.field("Longest life in hours", "2")
    tab.js(SUBMIT)
    tab.until_text("The token's secret")
    tab.until("document.querySelectorAll('dialog').length === 1")
    token = tab.js("document.querySelector('dialog input').value")
    assert tab.js("document.querySelector('dialog input[aria-label=HMAC]').value.length") > 20
    tab.click("Close")
    tab.until(f"Boolean(document.querySelector('[aria-label=\"Renew {token}\"]'))")
    tab.js(f"document.querySelector('[aria-label=\"Renew {token}\"]').click()")
    tab.field("Hours from now", "1")
    done(tab)
    tab.js(f"document.querySelector('[aria-label=\"End {token}\"]').click()")
    tab.fill("dialog input[name=confirm]", token)
    done(tab)
    tab.until(f"!document.querySelector('[aria-label=\"End {token}\"]')")

    show(tab, "access/quotas", "Access")
    tab.click("New quota")
    tab.field("For", "user and client-id")
    tab.field("Name", "new")
    tab.field("Client id", "loader")
    tab.field("Value", "1048576")
    done(tab)
    tab.until_text("1.0 MiB/s")
    assert tab.js("document.querySelector('.rows tbody td').innerText.split('\\n').sort().join()") == (
        "client-id loader,user new"
    )
    tab.click("delete")
    done(tab)
    tab.until_text("There are no quotas.")
    assert tab.problems == []
