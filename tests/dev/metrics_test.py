# SPDX-License-Identifier: Apache-2.0
"""tools/dev/check-metrics.py finds a counter without a row of the metric table, and lets pass what has
one, or counts nothing.

    metrics_test.py
"""
import re

import pytest
from planted import TOOLS, run

CHECK = "check-metrics.py"
PAGE = "broker/http/page/page.js"


def sound():
    """The tree's own counters."""
    root = TOOLS.parents[1]
    files = {"broker/count/metrics.c": (root / "broker/count/metrics.c").read_text()}
    for path in root.glob("broker/**/*.h"):
        text = path.read_text()
        if re.search(r"struct \w+ \{", text):
            files[str(path.relative_to(root))] = text
    files[PAGE] = (root / PAGE).read_text()
    return files


PLANTED = {
    "a counter of a worker": ("broker/count/shard_stats.h", "    _Atomic uint64_t turns, sleeps;",
                              "    _Atomic uint64_t turns, naps, sleeps;", "amb_shard_stats.naps"),
    "a counter of control": ("broker/count/broker_stats.h", "    _Atomic uint64_t accepted,",
                             "    _Atomic uint64_t knocked, accepted,", "amb_broker_stats.knocked"),
    "a figure of a topic": ("broker/count/figures.h", "struct amb_topic_numbers {",
                            "struct amb_topic_numbers {\n    uint64_t stars;",
                            "amb_topic_numbers.stars"),
    "a counter of a subscription": ("broker/delivery/reader/subscription.h",
                                    "    uint64_t msgs, bytes, lost, spilled;",
                                    "    uint64_t msgs, bytes, lost, spilled, sung;",
                                    "amb_subscription.sung"),
    "another struct of counters": ("broker/base/party.h", "#pragma once\n",
                                   "#pragma once\nstruct amb_party_stats {\n"
                                   "    _Atomic uint64_t seen;\n};\n", "amb_party_stats.seen"),
}


def test_the_tree_is_sound(tmp_path):
    status, said = run(CHECK, tmp_path, sound())
    assert status == 0, said


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(tmp_path, name):
    path, old, new, counter = PLANTED[name]
    files = sound()
    assert old in files[path]
    files[path] = files[path].replace(old, new, 1)
    status, said = run(CHECK, tmp_path, files)
    assert status == 1 and f"{counter} has no row" in said, said


def test_a_row_that_goes_is_missed(tmp_path):
    files = sound()
    table = files["broker/count/metrics.c"]
    row = re.compile(r'    \{WORKER\(sleeps\),.*?"\)\},\n', re.S)
    files["broker/count/metrics.c"] = row.sub("", table)
    assert files["broker/count/metrics.c"] != table
    status, said = run(CHECK, tmp_path, files)
    assert status == 1 and "amb_shard_stats.sleeps has no row" in said


def test_a_name_of_the_page_that_is_none_is_found(tmp_path):
    files = sound()
    assert "ambroker_topic_log_bytes" in files[PAGE]
    files[PAGE] = files[PAGE].replace("ambroker_topic_log_bytes", "ambroker_topic_log_pounds")
    status, said = run(CHECK, tmp_path, files)
    assert status == 1 and "ambroker_topic_log_pounds is no metric" in said, said
