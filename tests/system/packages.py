# SPDX-License-Identifier: Apache-2.0
"""The Debian packages in a Debian of their own: judged by lintian, installed, upgraded with a right and with a
wrong configuration, removed, purged; and programs that are built with libamb-dev.

    pytest-3 tests/system/packages.py"""
import re

import pytest
from harness import check, until

CONFIG = "/etc/ambroker/broker.conf"
URL = "unix:///run/ambroker/broker.sock"
BROKER = ("ambroker", "ambroker-tools", "libamb0")
PLAIN, GPU, FENCE = "ambroker.service", "ambroker-gpu.service", "ambroker-fence.service"
APT = ("apt-get", "install", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold")

# Paths with kind, mode, owner and target; of /etc also what is in the files. dpkg, apt and adduser keep copies and
# journals of their own, which name what has been here: of these only the names count.
# man-db makes its index of all pages when it gets to it, whichever package came or went: that is not looked at.
LOOK = r"""
find / -xdev -path /srv -prune -o -path /var/cache/man -prune -o -printf '%p %y %m %u %g %l\n' | sort
find /etc -type f ! -name '*-' -exec sha256sum {} + | sort
"""


def look(system):
    return set(system.say("sh", "-c", LOOK).splitlines())


def warm_up(system):
    """Whatever the first package of a system leaves behind is there before a test looks: journals of dpkg and
    apt, copies of the files of users, the state of helpers."""
    system.run("sh", "-ec", """
        mkdir -p /tmp/warm/DEBIAN
        printf 'Package: warm\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n' \
            >/tmp/warm/DEBIAN/control
        dpkg-deb -b /tmp/warm /tmp/warm.deb
        apt-get install -y /tmp/warm.deb
        apt-get purge -y warm
        adduser --quiet --system --group --no-create-home warm
        deluser --quiet --system warm
        ldconfig
    """)


def bump(system, packages, version, change=""):
    """Copies of the packages with another version, after a change of their files; for apt."""
    out = []
    for name in BROKER:
        tree, file = f"/tmp/{name}-{version}", f"/tmp/{name}_{version}.deb"
        system.run("sh", "-ec", f"""
            rm -rf {tree}
            dpkg-deb -R {packages[name]} {tree}
            cd {tree}
            sed -i 's/0\\.1\\.0-1/{version}/' DEBIAN/control
            {change if name == 'ambroker' else ''}
            dpkg-deb -Znone -b . {file}
        """)
        out.append(file)
    return out


def publishes(system):
    """Whether a message goes through the broker; Failure where one of both programs says something else."""
    reader = system.start("broker-ctl", "--url", URL, "sub", "a", "--count", "1", "--raw", "--timeout", "60")
    done = system.run("broker-ctl", "--url", URL, "pub", "a", "--text", "hello", "--wait-subscribers", "1", "--timeout", "60",
                      fails=True)
    text = reader.communicate(timeout=90)[0]
    check(done.returncode == 0, f"pub: {done.stdout}")
    check(text in ("hello", ""), f"sub: {text}")
    return text == "hello"


def program(system, unit=PLAIN):
    """The file that the broker runs."""
    return system.say("readlink", f"/proc/{system.main_pid(unit)}/exe")


def is_enabled(system, unit):
    return system.run("systemctl", "is-enabled", unit, fails=True).stdout.strip()


def check_installed(system):
    check(system.show(PLAIN, "ActiveState") == "active", "apt is done, and the broker is not ready")
    check(publishes(system), "nothing comes through")
    check([is_enabled(system, unit) for unit in (PLAIN, GPU, FENCE)] == ["enabled", "disabled", "disabled"], "enabled")
    check(system.say("stat", "-c", "%U:%G %a", "/run/ambroker/broker.sock") == "ambroker:ambroker 660", "the socket")
    check(CONFIG in system.say("dpkg-query", "-W", "-f", "${Conffiles}", "ambroker"), "no conffile")
    check(system.say("stat", "-c", "%U", f"/proc/{system.main_pid(PLAIN)}") == "ambroker", "its user")
    for page in ("man1/broker-ctl.1", "man1/broker-bench.1", "man5/broker.conf.5", "man7/ambroker.7", "man8/brokerd.8",
                 "man8/ucx-fence.8"):
        # dpkg is told to leave pages out in some small systems, so the packages are asked.
        check(system.run("sh", "-c", f"dpkg -L ambroker ambroker-tools | grep -q /{page}.gz", fails=True).returncode == 0,
              f"no page {page}")
    check("Dan Vanderkam" in system.say("cat", "/usr/share/doc/ambroker/copyright-dygraphs"), "no notice of dygraphs")
    for shell in ("bash-completion/completions/broker-ctl", "zsh/vendor-completions/_broker-ctl",
                  "fish/vendor_completions.d/broker-ctl.fish"):
        system.run("test", "-s", f"/usr/share/{shell}")


def upgrade_right(system, packages):
    """The broker is the new one, and the file that nobody changed is the new one, too. A key that the shell has as
    a variable is not the service's."""
    before = system.main_pid(PLAIN)
    system.run(*APT, *bump(system, packages, "0.1.0-2", "echo '# new' >>etc/ambroker/broker.conf"),
               env={"AMBROKER_SERVER_WORKERS": "none"})
    check(system.main_pid(PLAIN) not in (0, before), "the former broker runs")
    check(system.say("tail", "-n", "1", CONFIG) == "# new", "the former file")
    where = program(system)  # A root of this test's own may stand in front, and nothing behind.
    check(where.endswith("/usr/bin/brokerd"), f"it runs {where}")
    check(publishes(system), "nothing comes through the new one")


def upgrade_wrong(system, packages):
    """The broker that runs stays, and all that is said can be acted on."""
    right = system.say("cat", CONFIG)
    before = system.main_pid(PLAIN)
    system.run("sh", "-c", f"echo 'limits = {{ nothing = 1; }};' >{CONFIG}")
    done = system.run(*APT, *bump(system, packages, "0.1.0-3"))
    check(system.main_pid(PLAIN) == before and publishes(system), "the broker that ran is gone")
    check(program(system).endswith("/usr/bin/brokerd (deleted)"), f"its program: {program(system)}")
    for words in (f"{CONFIG}:1: limits.nothing: unknown key", "the broker that runs goes on",
                  f"mend {CONFIG}, then: systemctl restart {PLAIN}"):
        check(words in done.stdout, f"nothing of '{words}': {done.stdout}")
    check(system.say("dpkg-query", "-W", "-f", "${Version} ${Status}", "ambroker") == "0.1.0-3 install ok installed",
          "the upgrade has not succeeded")
    check(system.say("cat", CONFIG) == "limits = { nothing = 1; };", "the administrator's file is another one")
    refused = system.run("systemctl", "reload", PLAIN, fails=True)
    check(refused.returncode != 0, "systemctl says that a wrong file is in force")
    check(system.main_pid(PLAIN) == before and publishes(system), "a refused reload ends the broker")
    system.run("systemctl", "stop", PLAIN)
    done = system.run(*APT, *bump(system, packages, "0.1.0-4"))
    check("is not started" in done.stdout and "goes on" not in done.stdout, done.stdout)
    check(system.show(PLAIN, "ActiveState") == "inactive", "it runs with a wrong file")
    system.run("sh", "-c", f"cat >{CONFIG}", text=right + "\n")
    system.run("systemctl", "restart", PLAIN)
    check(publishes(system), "it does not work with the mended file")


def upgrade_disabled(system, packages):
    """What the administrator wants stays."""
    system.run("systemctl", "disable", "--now", PLAIN)
    system.run(*APT, *bump(system, packages, "0.1.0-5"))
    check(is_enabled(system, PLAIN) == "disabled" and system.main_pid(PLAIN) == 0, "it is enabled, or runs")
    system.run("systemctl", "enable", "--now", GPU)
    before = system.main_pid(GPU)
    check(publishes(system), "the other unit does not work")
    system.run(*APT, *bump(system, packages, "0.1.0-6"))
    check(system.main_pid(GPU) not in (0, before) and system.main_pid(PLAIN) == 0, "the other unit's broker")
    check(publishes(system), "the other unit does not work after an upgrade")
    system.run("systemctl", "disable", "--now", GPU)
    system.run("systemctl", "enable", "--now", PLAIN)


def test_installed_upgraded_removed_purged(fresh, packages):
    warm_up(fresh)
    before = look(fresh)
    fresh.run(*APT, *(packages[name] for name in BROKER))
    check_installed(fresh)
    upgrade_right(fresh, packages)
    upgrade_wrong(fresh, packages)
    upgrade_disabled(fresh, packages)

    fresh.run("apt-get", "remove", "-y", "ambroker")
    check(fresh.show(PLAIN, "LoadState") == "not-found", "the unit is there")
    check(fresh.run("pgrep", "brokerd", fails=True).returncode != 0, "a broker runs")
    fresh.run("test", "-e", CONFIG)
    fresh.run(*APT, *bump(fresh, packages, "0.1.0-7"))
    check(publishes(fresh), "it does not come back after a removal")

    fresh.run("sh", "-c", "echo secret >/etc/ambroker/token")
    done = fresh.run("apt-get", "purge", "-y", *BROKER)
    check("/etc/ambroker is left" in done.stdout, done.stdout)
    check(fresh.say("ls", "-A", "/etc/ambroker") == "token", "more than the administrator's file is left")
    fresh.run("rm", "-r", "/etc/ambroker")
    after = look(fresh)
    check(after == before, f"left: {sorted(after - before)[:20]}; gone: {sorted(before - after)[:20]}")
    check(fresh.run("getent", "passwd", "ambroker", fails=True).returncode != 0, "the user is left")
    check(fresh.say("ls", "/run") == fresh.say("ls", "-I", "ambroker", "/run"), "/run/ambroker is left")


def test_a_system_without_systemd_takes_it(fresh, packages):
    """As an image that is being built does: /run/systemd/system is not there."""
    inside = "mount -t tmpfs tmpfs /run && dpkg -i " + " ".join(packages[name] for name in BROKER)
    fresh.run("unshare", "--mount", "sh", "-ec", inside)
    check(fresh.main_pid(PLAIN) == 0, "it was started")
    inside = "mount -t tmpfs tmpfs /run && dpkg --purge " + " ".join(BROKER)
    fresh.run("unshare", "--mount", "sh", "-ec", inside)
    check(fresh.run("getent", "passwd", "ambroker", fails=True).returncode != 0, "the user is left")


MULTI_ARCH = {"ambroker": "foreign", "ambroker-tools": "foreign", "libamb0": "same", "libamb-dev": "same",
              "ambroker-ucx": "same", "libamb0-dbgsym": "same", "ambroker-dbgsym": "no", "ambroker-tools-dbgsym": "no"}


def test_packages_of_two_architectures_fit(system, packages):
    """Where Multi-Arch is same, no file differs between them but in a folder of the architecture's own."""
    fields = {name: system.say("dpkg-deb", "-f", file, "Multi-Arch") for name, file in packages.items()}
    check(fields == MULTI_ARCH, f"{fields}")
    triplet = system.say("sh", "-c", "basename /usr/lib/*-linux-gnu")
    places = (f"/usr/lib/{triplet}/", "/usr/lib/debug/.build-id/", "/usr/share/doc/", "/usr/include/amb/")
    for name in (name for name, word in MULTI_ARCH.items() if word == "same"):
        lines = system.say("dpkg-deb", "-c", packages[name]).splitlines()
        files = [line.split()[5].removeprefix(".") for line in lines if not line.startswith("d")]
        check(files and all(file.startswith(places) for file in files), f"{name}: {files}")


def test_lintian_finds_no_error_and_warns_of_nothing_new(fresh, packages):
    done = fresh.run("lintian", "--no-cfg", "--allow-root", "--fail-on", "error", *packages.values(), fails=True,
                     seconds=240)
    check(done.returncode == 0 and "E: " not in done.stdout, done.stdout)
    # No bug is closed by the first entry, and CPack writes scripts that do what etc/debian/triggers asks for.
    tags = set(re.findall(r"^W: \S+ (\S+)", done.stdout, re.M))
    check(tags == {"initial-upload-closes-no-bugs", "maintscript-calls-ldconfig"}, done.stdout)


README = re.compile(r"^```c\n(.*?)^```", re.M | re.S)
CMAKE = """cmake_minimum_required(VERSION 3.25)
project(hello C)
find_package(Ambroker REQUIRED)
add_executable(publish publish.c)
add_executable(subscribe subscribe.c)
target_link_libraries(publish Ambroker::amb)
target_link_libraries(subscribe Ambroker::amb)
"""
BUILDS = {
    "pkg-config": "for p in publish subscribe; do cc $p.c -o $p $(pkg-config --cflags --libs amb); done",
    "cmake": "cmake -S . -B build -G Ninja && cmake --build build && mv build/publish build/subscribe .",
}


@pytest.mark.parametrize("how", BUILDS)
def test_programs_are_built_and_run(system, readme, how):
    """README's own."""
    folder = f"/root/{how}"
    system.run("mkdir", folder)
    programs = {text.split(":")[0].removeprefix("/* "): text for text in README.findall(readme)}
    for name, text in {**programs, "CMakeLists.txt": CMAKE}.items():
        system.run("sh", "-c", f"cat >{folder}/{name}", text=text)
    system.run("sh", "-ec", f"cd {folder}\n{BUILDS[how]}")
    reader = system.start(f"{folder}/subscribe", env={"AMB_URL": URL})
    system.run(f"{folder}/publish", env={"AMB_URL": URL})
    line = reader.stdout.readline()
    system.run("pkill", "-f", f"^{folder}/subscribe")
    reader.wait(20)
    check(line == "greetings.world: hello\n", f"it printed: {line}")
    libraries = system.say("ldd", f"{folder}/publish")
    check("libamb.so.0 => /lib/" in libraries or "libamb.so.0 => /usr/lib/" in libraries, libraries)
    check("RUNPATH" not in system.say("readelf", "-d", f"{folder}/publish"), "a run path of the system's folder")


@pytest.mark.parametrize("word,release,where", [("wheel", "1.22.0", "/ambroker/ucx/lib/"),
                                                ("system", "1.13.1", "-linux-gnu/libucp.so.0")])
def test_both_ucx_are_loaded(system, word, release, where):
    """By a broker and a client, each with a link of it."""
    socket = f"unix:///tmp/{word}.sock"
    env = {"AMB_UCX_LIBRARY": word, "AMB_TRUSTED": "lo"}
    broker = system.start("brokerd", "--dev", "--listen", "tcp://127.0.0.1:0", "--listen", socket, env=env)
    line = broker.stdout.readline()
    while "ready" not in line:
        check(line, "the broker has ended")
        line = broker.stdout.readline()
    url = re.search(r"tcp://[\d.:]+", line).group(0)
    reader = system.start("broker-ctl", "--url", f"{url}?link=ucx", "sub", "a", "--count", "1", "--raw", env=env)
    until(60, lambda: "ucx" in system.say("broker-ctl", "--url", socket, "clients", "-o", "json"), "a client by ucx")
    maps = system.say("sh", "-c", "cat /proc/$(pgrep -n brokerd)/maps")
    loaded = {path for path in re.findall(r"\S*/libucp\.so\.\S+", maps)}
    check(len(loaded) == 1 and any(where.split("libucp")[0] in path for path in loaded), f"{loaded}")
    check(f"UCX {release}" in system.say("brokerd", "--version", env=env), "another release")
    system.run("broker-ctl", "--url", f"{url}?link=ucx", "pub", "a", "--text", "by ucx", "--wait-subscribers", "1", env=env)
    check(reader.communicate(timeout=60)[0] == "by ucx", "nothing came")
    system.run("pkill", "-n", "-x", "brokerd")
    broker.communicate(timeout=60)
