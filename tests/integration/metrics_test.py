# SPDX-License-Identifier: Apache-2.0
"""/metrics as Prometheus takes it, the alerts of etc/prometheus and the dashboard of etc/grafana.

    pytest-3 metrics_test.py [--time SECONDS]     so long Prometheus scrapes (8; 60 of stress-metrics)

Without promtool and prometheus (Debian's package prometheus) most of it is skipped. Grafana itself is not run.
"""
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import pytest
import scrape
from harness import check, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "etc/prometheus/ambroker.rules.yml"
DASHBOARD = ROOT / "etc/grafana/ambroker.json"
TABLE = ROOT / "docs/metrics.md"
MINUTES = 40  # of each alert's test

# Of each alert: series that make it fire within the time, and those that do not, as promtool writes them.
ALERTS = {
    "AmbrokerGone": ({"up": "0+0x40"}, {"up": "1+0x40"}),
    "AmbrokerThreadStalled": ({"ambroker_thread_silence_seconds": "0+15x40"},
                              {"ambroker_thread_silence_seconds": "0.2+0x40"}),
    "AmbrokerMemoryNearlyFull": (
        {"ambroker_memory_used_bytes": "95+0x40", "ambroker_memory_bytes": "100+0x40",
         "ambroker_memory_limit_bytes": "100+0x40"},
        # Segments that a burst has left.
        {"ambroker_memory_used_bytes": "9+0x40", "ambroker_memory_bytes": "100+0x40",
         "ambroker_memory_limit_bytes": "100+0x40"}),
    "AmbrokerTopicsNearlyFull": ({"ambroker_topics": "91+0x40", "ambroker_topics_limit": "100+0x40"},
                                 {"ambroker_topics": "50+0x40", "ambroker_topics_limit": "100+0x40"}),
    "AmbrokerConnectionsNearlyFull": ({"ambroker_clients": "91+0x40", "ambroker_clients_limit": "100+0x40"},
                                      {"ambroker_clients": "9+0x40", "ambroker_clients_limit": "100+0x40"}),
    "AmbrokerLoss": ({"ambroker_messages_lost_trimmed_total": "0+1x40"},
                     {"ambroker_messages_lost_trimmed_total": "7+0x40"}),
    "AmbrokerSlowSubscription": ({"ambroker_messages_lost_slow_total": "0+1x40"},
                                 {"ambroker_messages_lost_slow_total": "7+0x40"}),
    "AmbrokerDeadLettersLost": ({"ambroker_messages_dead_lost_total": "0+1x40"},
                                {"ambroker_messages_dead_lost_total": "7+0x40"}),
    "AmbrokerStaged": ({"ambroker_messages_staged_total": "0+5x40", "ambroker_gpu_pools": "1+0x40"},
                       {"ambroker_messages_staged_total": "0+5x40", "ambroker_gpu_pools": "0+0x40"}),
    "AmbrokerReloadRefused": ({"ambroker_config_reloads_refused_total": "0+1x40"},
                              {"ambroker_config_reloads_refused_total": "3+0x40"}),
    "AmbrokerLoginsRefused": ({"ambroker_connections_refused_auth_total": "0+9x40"},
                              {"ambroker_connections_refused_auth_total": "100+0x40"}),
    "AmbrokerCountersUnlisted": (
        {f"ambroker_counters_unlisted_{kind}": f"{kind == 'queues':d}+0x40"
         for kind in ("topics", "subscriptions", "queues", "clients")},
        {f"ambroker_counters_unlisted_{kind}": "0+0x40" for kind in ("topics", "subscriptions", "queues", "clients")}),
}


def tool(name):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here (package prometheus)")
    return found


def run(*words, text=None):
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 0, f"{words}: {done.stdout} {done.stderr}")
    return done.stdout + done.stderr


def queries():
    """Of the dashboard, for an instance that is any."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"].replace("$__rate_interval", "10s").replace("$instance", ".*")
            for panel in panels for target in panel["targets"]]


def test_names_of_rules_and_dashboard_are_those_of_the_table():
    known = set(re.findall(r"`(ambroker_\w+)`", TABLE.read_text()))
    for text in (RULES.read_text(), DASHBOARD.read_text()):
        used = set(re.findall(r"\bambroker_[a-z0-9_]+", text))
        check(used, "no names")
        unknown = {name for name in used if re.sub("_(bucket|count|sum)$", "", name) not in known}
        check(not unknown, f"not in the table: {unknown}")


def test_promtool_finds_nothing_wrong(rig):
    promtool = tool("promtool")
    broker = rig.broker()
    said = run(promtool, "check", "metrics", text=scrape.get(f"{broker.socket}.http"))
    check(said == "", said)
    run(promtool, "check", "rules", str(RULES))


def test_each_alert_fires_and_rests(rig):
    promtool = tool("promtool")
    names = re.findall(r"alert: (\w+)", RULES.read_text())
    check(sorted(names) == sorted(ALERTS), f"alerts {names} and tests of {list(ALERTS)}")
    said = []
    for name, (bad, good) in ALERTS.items():
        # First bad, then good; and good from the beginning.
        both = {metric: f"{bad[metric].replace(f'x{MINUTES}', f'x{MINUTES // 2}')} {good[metric]}" for metric in bad}
        said += promtool_test(name, both, ((MINUTES // 2, True), (MINUTES, False)))
        said += promtool_test(name, good, ((MINUTES // 2, False),))
    test = rig.folder / "rules_test.yml"
    test.write_text("\n".join([f"rule_files: ['{RULES}']", "evaluation_interval: 1m", "tests:", *said, ""]))
    run(promtool, "test", "rules", str(test))
    # The test can fail: a broker that is there is said to be gone.
    test.write_text(test.read_text().replace("'0+0x20 1+0x40'", "'1+0x40'", 1))
    done = subprocess.run([promtool, "test", "rules", str(test)], capture_output=True, timeout=60, check=False)
    check(done.returncode != 0, "promtool finds no fault")


def promtool_test(name, series, fires):
    """That alert, with these series, fires after so many minutes, or does not."""
    said = [f"  - name: {name}", "    interval: 1m", "    input_series:"]
    said += [f"      - {{series: '{metric}{{job=\"ambroker\",instance=\"a\"}}', values: '{values}'}}"
             for metric, values in series.items()]
    said += ["    promql_expr_test:"]
    for minutes, is_firing in fires:
        said += [f"      - expr: 'count(ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}})'",
                 f"        eval_time: {minutes}m",
                 "        exp_samples: " + ("[{labels: '{}', value: 1}]" if is_firing else "[]")]
    return said


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def api(port, path, **query):
    url = f"http://127.0.0.1:{port}/api/v1/{path}?" + urllib.parse.urlencode(query)
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)["data"]


def ask(port, query):
    return api(port, "query", query=query)["result"]


def is_up(port):
    try:
        return any(row["value"][1] == "1" for row in ask(port, 'up{job="ambroker"}'))
    except OSError:
        return False


def test_prometheus_scrapes_it_and_the_dashboard_has_data(rig, options):
    prometheus = tool("prometheus")
    broker = rig.broker("-o", "http.listen=tcp://127.0.0.1:0")
    target = until(5, lambda: re.search(r"http://(127\.0\.0\.1:\d+)", broker.log()), "an address in the log").group(1)
    port = free_port()
    config = rig.folder / "prometheus.yml"
    config.write_text(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{RULES}']\n"
                      f"scrape_configs: [{{job_name: ambroker, static_configs: [{{targets: ['{target}']}}]}}]\n")
    rig.start([prometheus, f"--config.file={config}", f"--storage.tsdb.path={rig.folder}/tsdb",
               f"--web.listen-address=127.0.0.1:{port}"])
    until(30, lambda: is_up(port), "prometheus has a scrape")
    done = rig.client("broker-ctl", "pub", "a", "--count", "1000", "--size", "100", "--url", broker.url("ring"))
    check(done.wait() == 0, done.log())
    time.sleep(float(options.get("time", 8)))
    for query in queries():
        check(ask(port, query), f"no data: {query}")
    counted = ask(port, "sum(ambroker_messages_in_total)")
    check(float(counted[0]["value"][1]) >= 1000, counted)
    check(ask(port, "count_over_time(up[1m])") and not ask(port, "up == 0"), "a scrape has failed")
    check(not ask(port, 'ALERTS{alertstate="firing"}'), "an alert fires")
    # It is OpenMetrics that Prometheus takes: there a family's name has no _total.
    families = api(port, "metadata")
    check("ambroker_messages_in" in families and "ambroker_messages_in_total" not in families, list(families))


def settled(now):
    return now if now["ambroker_workers", ""] > 0 else None


def test_limits_and_gauges_are_there_before_the_first_client(rig):
    door = f"{rig.broker().socket}.http"
    # The ready line may come before the control thread's first round.
    now = until(10, lambda: settled(scrape.samples(scrape.get(door))), "the control thread has counted")
    for name in ("ambroker_clients_limit", "ambroker_topics_limit", "ambroker_memory_limit_bytes", "ambroker_workers"):
        check(now[name, ""] > 0, f"{name} is 0")
    check(time.time() - now["ambroker_start_time_seconds", ""] < 300, "its start")


def test_memory_that_a_burst_has_left_is_not_in_use(rig):
    broker = rig.broker("-o", "memory.host.size=16M", "-o", "memory.host.segment=4M", "-o", "server.max_message=4M")
    door, url = f"{broker.socket}.http", broker.url("ring")

    def now(name):
        return scrape.total(scrape.samples(scrape.get(door)), f"ambroker_{name}")
    reader = rig.client("broker-ctl", "--url", url, "sub", "burst.>", "--sha256", "--count", "10000", "--slow", "block",
                        "--slow-block", "600")
    until(10, lambda: now("subscriptions") == 1, "the reader")
    reader.signal(signal.SIGSTOP)
    writers = [rig.client("broker-ctl", "--url", url, "--timeout", "100", "pub", f"burst.{i}", "--count", "40",
                          "--size", "1M") for i in range(3)]
    until(30, lambda: now("memory_used_bytes") > 8 << 20, "memory is used")
    most = now("memory_bytes")
    check(most > 8 << 20, f"{most} bytes of segments")
    reader.signal(signal.SIGCONT)
    for writer in writers:
        check(writer.wait(60) == 0, writer.log())
    until(30, lambda: now("memory_used_bytes") < 1 << 20, "all is read")
    done = rig.client("broker-ctl", "check", "memory", "--warn", "10", "--critical", "20", "--url", url)
    check(done.wait() == 0, done.log())
    reader.signal(signal.SIGTERM)
    reader.wait()
    # Scrapes alone do not keep them.
    until(10, lambda: now("clients") == 0, "nobody is there")
    until(30, lambda: now("memory_bytes") < most / 2, "segments go")


def test_reloads_are_counted(rig):
    config = rig.folder / "reload.conf"
    config.write_text("")
    broker = rig.broker("--config", str(config))
    door = f"{broker.socket}.http"
    for text, name in (("", "ambroker_config_reloads_total"), ("nonsense = 1;", "ambroker_config_reloads_refused_total")):
        config.write_text(text)
        before = scrape.samples(scrape.get(door))[name, ""]
        broker.signal(1)  # HUP
        until(10, lambda: scrape.samples(scrape.get(door))[name, ""] == before + 1, f"{name} has grown")
