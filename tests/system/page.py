# SPDX-License-Identifier: Apache-2.0
"""The page in a browser: three widths, light and dark, by keyboard alone. Its figures are those of the views, it
says nothing on the console, asks no other host, and outlives a broker. With --time N it stays open for N seconds,
and has at most 60 MB of heap then; tests/README.md says why it is not in the default run.

    pytest-3 tests/system/page.py --build build/dev --time 600 --pictures docs/images
"""
import contextlib
import json
import pathlib
import shutil
import time

import pytest
from http_doors import Door
from harness import check, until

selenium = pytest.importorskip("selenium", reason="the page was not looked at: no python3-selenium")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.options import Options  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not CHROMIUM or not DRIVER:
    pytest.skip("the page was not looked at: no chromium, or no chromium-driver", allow_module_level=True)

SECONDS = 900
HEAP_MAX = 60e6
HEIGHT = 1500
STREAMS = 16  # AMB_STREAMS_MAX
READER = "<img src=x onerror=alert(1)>"
NASTY = "<script+src=x.\"&'\u202eabc"
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
           "--js-flags=--expose-gc", "--disable-background-networking", "--disable-component-update",
           "--no-first-run", "--lang=en")


class Browser:
    def __init__(self, folder):
        options = Options()
        options.binary_location = CHROMIUM
        for word in (*OPTIONS, f"--user-data-dir={folder}"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.asked = set()

    def shape(self, width, dark, height=HEIGHT):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def state(self):
        return self.run("return document.getElementById('state').textContent")

    def live(self):
        until(60, lambda: self.state() == "live", "the page is not live")
        until(20, lambda: self.run("return document.querySelectorAll('#view-topics tbody tr').length") > 0, "no rows")

    def console(self):
        return [line["message"] for line in self.driver.get_log("browser")]

    def requests(self):
        """All that were asked for so far."""
        for line in self.driver.get_log("performance"):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.asked.add(message["params"]["request"]["url"])
        return self.asked

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def table(self, view):
        """{the first column: texts of all}, as they are shown."""
        return self.run("""
            const rows = {};
            for (const tr of document.querySelectorAll(`#view-${arguments[0]} tbody tr`)) {
              rows[tr.dataset.key] = [...tr.cells].map((td) => td.textContent.trim());
            }
            return rows;""", view)

    def main_text(self):
        return self.run("return document.querySelector('main').innerText")

    def heap(self):
        self.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        return self.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"]


@pytest.fixture
def browser(rig):
    browser = Browser(rig.folder / "chromium")
    yield browser
    browser.driver.quit()


def page_of(rig, broker):
    process = rig.client("broker-ctl", "page", "--port", "0", "--url", broker.url("ring"))
    return process.line().strip()


def world(rig, broker):
    """Topics, a reader that is slow, a queue, and names that are no good as HTML."""
    for topic, count in (("camera.left", 40), ("camera.right", 7), (NASTY, 3)):
        done = rig.client("broker-ctl", "pub", topic, "--count", str(count), "--size", "100", "--url", broker.url("ring"))
        check(done.wait() == 0, done.log())
    rig.client("broker-ctl", "sub", "camera.*", "--url", broker.url("ring"), "--client-name", READER)
    until(20, lambda: broker.ask("subs"), "the subscription")
    return rig.client("broker-ctl", "pub", "camera.left", "--count", "100000", "--size", "2000", "--rate", "50", "--url",
                      broker.url("ring"), "--client-name", "camera")


def view(broker, name):
    answer = Door(path=f"{broker.socket}.http").raw(f"GET /v1/{name} HTTP/1.0\r\n\r\n".encode())
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    return body.get(name, body)


def check_figures(broker, browser):
    """Once nothing moves: each figure of the tables is that of the view."""
    def is_same():
        # The last messages are in the view with the broker's next copy.
        topics = {f"{row['topic']}|{row['priority']}|{row['tenant']}": row for row in view(broker, "topics")}
        shown = browser.table("topics")
        return set(shown) == set(topics) and all(
            (texts[0], texts[3], texts[4], texts[6]) ==
            (row["topic"], str(row["messages"]), str(row["log_messages"]), str(row["subscriptions"]))
            for texts, row in ((shown[key], row) for key, row in topics.items()))

    until(20, is_same, f"{browser.table('topics')} {view(broker, 'topics')}")
    subs = {str(row["id"]): row for row in view(broker, "subs")}
    shown = browser.table("subs")
    check(set(shown) == set(subs), f"{shown} {subs}")
    for key, row in subs.items():
        check((shown[key][0], shown[key][3], shown[key][6]) == (row["pattern"], str(row["delivered"]), str(row["lost"])),
              f"{shown[key]} {row}")
    for row in view(broker, "clients"):
        check(browser.table("clients")[str(row["id"])][:4] == [row["name"], str(row["id"]), row["link"], row["lanes"]], row)
    status = view(broker, "status")
    uses = browser.run("""return Object.fromEntries([...document.querySelectorAll('dd[data-metric]')]
        .map((dd) => [dd.dataset.metric, dd.textContent.trim()]))""")
    for metric, column in (("ambroker_topics", "topics"), ("ambroker_clients", "clients"),
                           ("ambroker_subscriptions", "subscriptions")):
        check(uses[metric] == f"{status[column]} of {status[column + '_limit']}", f"{uses[metric]} {status[column]}")
    lost = sum(row["lost_slow"] for row in view(broker, "workers"))
    check(uses["ambroker_messages_lost_slow_total"] == str(lost), uses)


def picture(browser, options, name):
    if "pictures" in options:
        browser.driver.save_screenshot(str(pathlib.Path(options["pictures"]) / name))


def check_quiet(browser, url):
    check(browser.console() == [], "the console")
    host = url.split("/")[2]
    elsewhere = [asked for asked in browser.requests() if not asked.startswith((f"http://{host}/", "data:"))]
    # A browser's own start pages are its own.
    elsewhere = [asked for asked in elsewhere if not asked.startswith("chrome")]
    check(not elsewhere, f"asked elsewhere: {elsewhere}")


def test_widths_colours_and_figures(rig, browser, options):
    broker = rig.broker("-o", "memory.host.size=256M")
    camera = world(rig, broker)
    url = page_of(rig, broker)
    browser.shape(1280, False)
    browser.driver.get(url)
    browser.live()
    check(browser.run("return location.search") == "", "the key is in the address")
    grounds = set()
    time.sleep(15 if "pictures" in options else 3)
    for width in (1280, 800, 360):
        for dark in (False, True):
            browser.shape(width, dark)
            until(10, lambda width=width: browser.run("return innerWidth") == width, "the width")
            time.sleep(1.5)
            wide = browser.run("return document.documentElement.scrollWidth")
            check(wide <= width, f"{width} px: the page is {wide} px wide")
            grounds.add((dark, browser.run("return getComputedStyle(document.body).backgroundColor")))
            check(browser.run("return document.querySelectorAll('canvas').length") >= 3, "charts")
            picture(browser, options, f"page-{width}{'-dark' if dark else ''}.png")
    check(len(grounds) == 2, f"light and dark: {grounds}")
    reds = browser.run("return [...document.querySelectorAll('.hand')].map((one) => one.textContent)")
    check(reds == [], f"red, and nothing is wrong: {reds}")
    camera.signal(15)
    camera.wait()
    browser.shape(1280, False)
    check_figures(broker, browser)
    shown = browser.table("topics")[f"{NASTY}|normal|"][0]
    check(shown == NASTY, f"a name is not shown as it is: {shown}")
    check(browser.run("return document.querySelectorAll('main script, main img').length") == 0, "a name became HTML")
    check_quiet(browser, url)


# From now on each element that gets the focus is noted, with a number of its own, and what the page shows then.
NOTE = """
    window.stops = [];
    window.numbers = new Map();
    if (window.noted) return;
    window.noted = true;
    document.addEventListener('focusin', ({target}) => {
      const tip = document.getElementById('tip');
      if (!numbers.has(target)) numbers.set(target, numbers.size);
      stops.push({number: numbers.get(target), tag: target.tagName, text: target.textContent,
                  href: target.getAttribute('href') ?? '', help: target.dataset.help ?? '',
                  tip: tip.hidden ? '' : tip.textContent});
    });"""
AT_ONCE, STOPS = 25, 400  # keys in one command; stops that a page has at most
SHOWN = """[...document.querySelectorAll(arguments[0])].filter((one) => one.checkVisibility())"""


def focus(browser):
    return browser.run("const one = document.activeElement; return [one.tagName, one.textContent]")


def stops(browser):
    """Of the Tab key, from where the focus is until it has been everywhere; and how many there are in a round."""
    browser.run(NOTE)
    for _ in range(STOPS // AT_ONCE):
        browser.press(Keys.TAB * AT_ONCE)
        noted = browser.run("return window.stops")
        numbers = [stop["number"] for stop in noted]
        if 0 in numbers[1:]:
            return noted, numbers.index(0, 1)
    raise AssertionError(f"more than {STOPS} stops: {numbers}")


def tab_to(browser, text):
    noted, count = stops(browser)
    places = [i for i, stop in enumerate(noted[:count]) if (stop["tag"], stop["text"]) == ("A", text)]
    check(places, f"Tab does not come to the link {text}")
    browser.press(Keys.TAB * ((places[0] - len(noted) + 1) % count))
    for _ in range(5):  # Between the last stop and the first one nothing may have the focus.
        if focus(browser) == ["A", text]:
            return
        browser.press(Keys.TAB)
    raise AssertionError(f"{focus(browser)} has the focus, and not {text}")


def check_all_are_reached(browser):
    """Each link, field and explanation has its turn; an explanation is shown then."""
    noted, count = stops(browser)
    links = {stop["href"] for stop in noted[:count] if stop["tag"] == "A"}
    helps = {stop["help"] for stop in noted[:count] if stop["help"]}
    fields = sum(stop["tag"] == "INPUT" for stop in noted[:count])
    for stop in noted:
        check(not stop["help"] or stop["tip"].startswith(stop["help"]) and len(stop["tip"]) > len(stop["help"]), f"{stop}")
    there = set(browser.run(f"return {SHOWN}.map((one) => one.getAttribute('href'))", "a[href]"))
    check(links == there, f"links that Tab does not come to: {there - links}; others: {links - there}")
    explained = set(browser.run(f"return {SHOWN}.map((one) => one.dataset.help)", "[data-help]"))
    check(helps == explained, f"explanations that Tab does not come to: {explained - helps}")
    check(fields == browser.run(f"return {SHOWN}.length", "input"), f"{fields} fields")
    return links


def title(browser):
    return browser.run("return document.querySelector('main h2').textContent")


def test_by_keyboard_alone(rig, browser, options):
    broker = rig.broker()
    world(rig, broker)
    url = page_of(rig, broker)
    browser.shape(1280, False)
    browser.driver.get(url)
    browser.live()
    links = check_all_are_reached(browser)
    check({"#main", "#", "#topic=camera.left%7Cnormal%7C"} < links and len(links) >= 2 + 3 + 2, f"{links}")
    tab_to(browser, "camera.left")
    # A link keeps the focus while the table moves under it.
    time.sleep(2.5)
    check(focus(browser)[1] == "camera.left", "the focus is lost")
    browser.press(Keys.ENTER)
    until(10, lambda: title(browser) == "Topic camera.left", "the topic")
    until(10, lambda: "camera.*" in browser.main_text(), "its subscriber")
    time.sleep(2)
    picture(browser, options, "page-topic.png")
    check_all_are_reached(browser)
    # To the client that reads it, and back.
    reader = next(row for row in view(broker, "clients") if row["name"] == READER)
    tab_to(browser, f"{READER} ({reader['id']})")
    browser.press(Keys.ENTER)
    until(10, lambda: title(browser) == f"Client {READER}", "the client")
    until(15, lambda: "deliver" in browser.main_text(), "its ways")
    check_all_are_reached(browser)
    picture(browser, options, "page-client.png")
    for _ in range(2):  # An explanation that is shown goes first.
        browser.press(Keys.ESCAPE)
    until(10, lambda: browser.run("return location.hash") == "", "back")
    browser.press("/")
    check(focus(browser)[0] == "INPUT", "find")
    browser.press("right")
    until(10, lambda: list(browser.table("topics")) == ["camera.right|normal|"], "only what is sought")
    for _ in range(5):
        browser.press(Keys.BACKSPACE)
    until(10, lambda: len(browser.table("topics")) == 3, "all again")
    check_quiet(browser, url)


def test_more_pages_than_the_broker_serves(rig, browser):
    broker = rig.broker()
    world(rig, broker)
    door = Door(path=f"{broker.socket}.http")
    with contextlib.ExitStack() as stack:
        for _ in range(STREAMS):
            conn = stack.enter_context(door.connect())
            conn.sendall(b"GET /v1/events?view=status HTTP/1.1\r\nHost: a\r\n\r\n")
            check(conn.recv(100).startswith(b"HTTP/1.1 200"), "a stream")
        browser.driver.get(page_of(rig, broker))
        until(20, lambda: browser.state().startswith("as many pages are open as the broker serves"), "it says why")
    browser.live()


def test_losses_are_red_for_ten_seconds(rig, browser):
    broker = rig.broker()
    world(rig, broker).kill()
    browser.driver.get(page_of(rig, broker))
    browser.live()
    done = rig.client("broker-ctl", "pub", "kept.a", "--count", "5", "--url", broker.url("ring"), "--size", "10")
    check(done.wait() == 0, done.log())
    red = "return [...document.querySelectorAll('.hand')].map((one) => one.dataset.metric ?? '')"
    check(browser.run(red) == [], "nothing is wrong")
    # A reader that is too slow for one that drops what is old.
    slow = rig.client("broker-ctl", "sub", "drop", "--url", broker.url("ring"), "--credit", "1", "--policy", "drop-oldest",
                      "--client-name", "slow")
    until(10, lambda: any(row["pattern"] == "drop" for row in broker.ask("subs")), "the slow one")
    slow.signal(19)
    fill = rig.client("broker-ctl", "pub", "drop", "--count", "200000", "--size", "4000", "--url", broker.url("ring"))
    fill.wait(120)
    slow.signal(18)
    until(60, lambda: "ambroker_messages_lost_slow_total" in browser.run(red) or
          "ambroker_messages_dropped_total" in browser.run(red), "a loss is red")
    slow.kill()
    until(60, lambda: browser.run(red) == [], "and not for ever")


def test_it_outlives_a_broker(rig, browser):
    broker = rig.broker()
    world(rig, broker)
    url = page_of(rig, broker)
    browser.driver.get(url)
    browser.live()
    check_quiet(browser, url)
    broker.kill()
    until(20, lambda: "does not answer" in browser.state(), "it says so")
    again = rig.broker(at=broker)
    done = rig.client("broker-ctl", "pub", "second.life", "--count", "9", "--size", "10", "--url", again.url("ring"))
    check(done.wait() == 0, done.log())
    until(60, lambda: browser.state() == "live", "it is live again")
    until(20, lambda: browser.table("topics").get("second.life|normal|", [""] * 4)[3] == "9", "figures of the second one")
    # Of a lost connection a browser writes a line itself; the page writes none.
    check(all("net::ERR" in line or "Failed to load" in line for line in browser.console()), "the console")


def test_its_heap_is_bounded(rig, browser, options):
    broker = rig.broker()
    world(rig, broker)
    browser.shape(1280, False)
    browser.driver.get(page_of(rig, broker))
    browser.live()
    seconds = float(options.get("time", 20))
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        time.sleep(min(10, max(0.1, until_s - time.monotonic())))
        check(browser.state() == "live", "it is live")
    used = browser.heap()
    print(f"{used / 1e6:.1f} MB of heap after {seconds:.0f} s")
    check(used <= HEAP_MAX, f"{used} bytes of heap after {seconds:.0f} s")
