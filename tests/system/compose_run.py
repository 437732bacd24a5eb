#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service of docker/compose.yaml as arguments of `podman run`, each with a NUL behind it.

    compose_run.py FILE SERVICE

Keys that it does not know are an error, so nothing of the file is left out in silence. All containers are
on the network of the caller, where each service's name is 127.0.0.1."""
import json
import sys

import yaml


def words(value):
    return value if isinstance(value, list) else [value]


# What podman has no part in here, and why.
LEFT_OUT = {
    "build": "the image is there",
    "image": "last word of the options",
    "command": "behind the image",
    "networks": "one network for all",
    "depends_on": "the test starts them in that order",
    "mem_limit": "needs a control group",
    "ulimits": "higher ones need CAP_SYS_RESOURCE",
}


def options(service):
    for key, value in service.items():
        if key == "entrypoint":
            # podman takes a list as JSON.
            yield "--entrypoint=" + json.dumps(words(value))
        elif key == "user":
            yield f"--user={value}"
        elif key == "network_mode":
            if value != "none":
                raise SystemExit(f"network_mode {value}: not known here")
        elif key == "volumes":
            yield from (f"--volume={volume}" for volume in value)
        elif key == "tmpfs":
            yield from (f"--tmpfs={folder}" for folder in value)
        elif key == "read_only":
            yield f"--read-only={str(value).lower()}"
        elif key == "stop_grace_period":
            yield f"--stop-timeout={value.removesuffix('s')}"
        elif key == "environment":
            yield from (f"--env={name}={text}" for name, text in value.items())
        elif key not in LEFT_OUT:
            raise SystemExit(f"{key}: not known here")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        services = yaml.safe_load(file)["services"]
    service = services[sys.argv[2]]
    network = "none" if service.get("network_mode") == "none" else "host"
    out = [f"--network={network}", "--cgroups=disabled", *options(service)]
    if network == "host":
        out += [f"--add-host={name}:127.0.0.1" for name in services]
    out.append("localhost/" + service["image"])
    out += [word.replace("$$", "$") for word in words(service.get("command", []))]
    sys.stdout.write("".join(word + "\0" for word in out))


if __name__ == "__main__":
    main()
