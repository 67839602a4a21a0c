"""The report in a real browser: widths, colours, keyboard, downloads, and no requests."""

from __future__ import annotations

import shutil

import pytest

from specbench.cli.main import call
from tests.cli.scripted_runs import NGRAM, Bench

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in BROWSERS if (found := shutil.which(name))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="no chromium with its chromedriver on this machine"
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-quic", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--window-size=1200,900"),
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """The report of a small run, open in headless Chromium."""
    with pytest.MonkeyPatch.context() as patch:
        bench = Bench(tmp_path_factory.mktemp("bench"), patch)
        options = "accepted = {ngram = [1, 2, 0]}\nstep_ms = {ngram = 20}"
        assert bench.run(bench.write(items=4, arms=NGRAM, options=options)) == 0
        page = tmp_path_factory.mktemp("page") / "report.html"
        assert call(["report", str(bench.last()), "--html", str(page)]) == 0
    chosen = webdriver.ChromeOptions()
    chosen.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        chosen.add_argument(flag)
    made = webdriver.Chrome(options=chosen, service=webdriver.ChromeService(DRIVER))
    try:
        made.get(page.as_uri())
        yield made
    finally:
        made.quit()


def width(browser, pixels):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": pixels, "height": 800, "deviceScaleFactor": 1, "mobile": pixels < 500},
    )


@pytest.mark.parametrize("pixels", [360, 800, 1400])
def test_the_page_itself_never_scrolls_sideways(browser, pixels):
    width(browser, pixels)
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= pixels
    shown = browser.execute_script(
        "return [...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().height)"
    )
    assert len(shown) >= 6
    assert min(shown) > 60


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_letters_and_paper_follow_the_readers_scheme(browser, scheme, dark):
    feature = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": feature})
    script = (
        "const read = (e, k) => getComputedStyle(e)[k].match(/\\d+/g).slice(0, 3).map(Number);"
        "return [read(document.body, 'backgroundColor'), read(document.querySelector('svg'), "
        "'color')]"
    )
    paper, ink = (sum(found) / 3 for found in browser.execute_script(script))
    assert (paper < 128) is dark
    assert abs(paper - ink) > 128


def test_tables_open_from_the_keyboard(browser):
    opened = browser.execute_script("return document.querySelectorAll('details[open]').length")
    assert opened == 0
    summary = browser.find_element("css selector", "details summary")
    browser.execute_script("arguments[0].focus()", summary)
    webdriver.ActionChains(browser).send_keys("\ue007").perform()
    assert browser.execute_script("return document.querySelectorAll('details[open]').length") == 1
    cells = browser.execute_script(
        "return document.querySelector('details[open]').querySelectorAll('td').length"
    )
    assert cells > 4


def test_links_lead_to_their_charts_and_downloads_hold_data(browser):
    missing = browser.execute_script(
        "return [...document.querySelectorAll('nav a')]"
        ".filter(a => !document.querySelector(a.getAttribute('href'))).length"
    )
    assert missing == 0
    texts = browser.execute_script(
        "return [...document.querySelectorAll('a[download]')].map(a => atob(a.href.split(',')[1]))"
    )
    assert len(texts) >= 6
    assert all("\n" in text for text in texts)


def test_nothing_is_asked_of_any_server(browser):
    asked = browser.execute_script(
        "return performance.getEntriesByType('resource').map(entry => entry.name)"
    )
    assert asked == []
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
