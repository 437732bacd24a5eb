# SPDX-License-Identifier: Apache-2.0
"""A broker whose users, tenants and quotas a test writes, and clients that do what it says."""
import hashlib
import signal

from harness import Failure, check, until

ALL = ('publish = ( ">" ); subscribe = ( ">", "$SYS.>", "$DLQ.>" ); request = true; reply = true; '
       'shared = ( "workers" );')


class Refused(Exception):
    """The library's answer is an error: its number and text."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status, self.text = status, text


class Broker:
    """users: name: (tenant, roles, quota). All have a token, and come by the Unix socket."""

    def __init__(self, rig, users, roles, more="", options=()):
        self.rig, self.users, self.roles, self.more = rig, users, roles, more
        self.config = rig.folder / "broker.conf"
        self.write()
        self.process = rig.broker("--config", self.config, "-o", "server.workers=2", *options,
                                  tcp=False)

    def write(self):
        file = self.rig.folder / "users"
        lines = []
        for name, (tenant, roles, quota) in self.users.items():
            token = f"token-of-{name}"
            path = self.credentials(name)
            path.write_text(f"{token}\n")
            path.chmod(0o600)
            digest = hashlib.sha256(token.encode()).hexdigest()
            lines.append(f"{name}:{tenant}:{roles}:{quota}:-:token/sha256-{digest}\n")
        file.write_text("".join(lines))
        file.chmod(0o600)
        roles = ",\n".join(f'{{ name = "{name}"; {rest} }}' for name, rest in self.roles.items())
        self.config.write_text(f'auth = {{ users = "{file}"; }};\nroles = ( {roles} );\n{self.more}\n')

    def credentials(self, name):
        return self.rig.folder / f"{name}.token"

    def reload(self, words="in force from now on"):
        before = self.process.log().count(words)
        self.write()
        self.process.signal(signal.SIGHUP)
        until(20, lambda: self.process.log().count(words) > before, f"the log says: {words}")

    def client(self, user):
        return Client(self, user)

    def stop(self):
        """Clients first, so that it need not wait for them."""
        for process in self.rig.processes:
            if "test-puppet" in process.name and process.is_running():
                process.end_input()
                process.wait()
        self.process.stop()


class Client:
    """Connections of one user, led line by line: tests/support/programs/puppet.c."""

    def __init__(self, broker, user, connects=True):
        self.broker, self.user = broker, user
        self.process = broker.rig.client("test-puppet")
        if connects:
            self.connect(0)

    def say(self, *words, slot=0, seconds=60):
        self.process.tell(f"{slot} " + " ".join(map(str, words)))
        answer = self.process.line(seconds)
        word, _, rest = answer.partition(" ")
        if word == "ok":
            return rest
        status, _, text = rest.partition(" ")
        check(int(status) != 0, f"{words}: {text}")
        raise Refused(int(status), text)

    def connect(self, slot):
        return self.say("connect", self.broker.process.unix_url, self.broker.credentials(self.user),
                        slot=slot)

    def refuses(self, words, *command, status=None, slot=0):
        """The command is refused, and the text has these words."""
        try:
            self.say(*command, slot=slot)
        except Refused as refused:
            check(words in refused.text, f"{self.user}: {command}: {refused} has not: {words}")
            check(status in (None, refused.status), f"{self.user}: {command}: {refused}")
            return refused.text
        raise Failure(f"{self.user}: {command} was not refused")

    def messages(self, handle, wait_ms=0):
        """All that its subscription has: (topic, text)."""
        found = []
        while True:
            try:
                topic, _, text = self.say("next", handle, wait_ms).partition(" ")
            except Refused:
                return found
            found.append((topic, text))
