# SPDX-License-Identifier: Apache-2.0
"""Every call and option of amb.h is reached from Python, or stands here with its reason."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_CALLED = {
    "amb_publish": "publish keeps publishers of its own, which take arrays and properties",
    "amb_request": "amb_request_post, so that a signal ends the wait",
    "amb_reply": "amb_reply_post says all of it",
    "amb_register": "allocators are not reached: into= copies",
    "amb_unregister": "as amb_register",
    "amb_msg_prop_count": "amb_msg_prop_at ends by itself",
}
NOT_OPTIONS = {
    "amb_options": {"resources", "resource_count", "detached", "ucx_am_id"},  # (later)
    "amb_pub_options": {"on_settled", "arg"},  # flush and stat tell
    "amb_sub_options": {"allocator", "allocators", "allocator_count", "fallback", "on_message",
                        "arg"},  # into=, and iterators
    "amb_out": {"iov", "iov_count", "reserved"},  # one buffer is one message
}
NO_NAMES = {"size", "reserved"}


def sources():
    folder = ROOT / "client" / "python" / "src"
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.c")))


def header():
    text = (ROOT / "client/include/amb/amb.h").read_text(encoding="utf-8")
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def test_header_calls_are_reached():
    calls = set(re.findall(r"\b(amb_\w+)\([^;{}]*\);", re.sub(r"#define.*", "", header())))
    calls -= {name for name in calls if name.endswith("_fn")}
    used = set(re.findall(r"\b(amb_\w+)\b", sources()))
    assert len(calls) > 60
    assert calls - used == set(NOT_CALLED) - used
    assert not set(NOT_CALLED) & used, "reached after all"


def test_header_options_are_reached():
    text = sources()
    for struct, left_out in NOT_OPTIONS.items():
        body = re.search(rf"struct {struct} \{{(.*?)\n\}};", header(), re.S)[1]
        fields = set(re.findall(r"(\w+);", body)) - NO_NAMES
        assert fields
        missing = {field for field in fields if not re.search(rf"\b{field}\b", text)}
        assert missing <= left_out, (struct, missing - left_out)
