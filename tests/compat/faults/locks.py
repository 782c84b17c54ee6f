"""TLS and logins on every listener of a run, and certificates, authorities and passwords that change while
faults go on: nobody may notice.

Nodes and clients prove who they are over TLS (SASL_SSL): clients by SCRAM, nodes among themselves and to the
quorum by PLAIN; an authorizer lets in nobody else. `turn_a_key` does the next change, each as
a careful operator does it, so that at every moment what is shown is what is known:

- a client's password: of two users with the same rights, the one that is not in use gets another password;
  when every node knows it, clients go over to it;
- a node's certificate: a new file in the place of the old one, which nodes find by themselves;
- the authority: first everybody trusts both, then all certificates are the new one's, then the old one is
  trusted no more;
- the nodes' own password: first every node knows both of their users, then each uses the new one, then the
  old one is gone. Each of these steps is a rolling restart.

Between two steps it waits until all nodes have found the files of the last one."""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from headrace.clients import AclBinding, Admin, UserScramCredentialUpsertion
from headrace.clients.config import ADMIN, ClientConfig
from headrace.clients.internals.channel_builder import channel_builder_of
from headrace.settings.not_yet import STANDARD_AUTHORIZER
from headrace.transport.client_connection import connect
from headrace.transport.receive_memory import ReceiveMemory
from headrace.transport.system_network import SystemNetwork
from headrace.wire.schemas.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tests.compat.clients.face import eventually
from tests.compat.cluster import HeadraceCluster, Node
from tests.compat.faults.logins import MECHANISM, SaslSslLogin
from tests.security.certificates import Authority

USERS: Final = ("app-a", "app-b")
NODE_USERS: Final = ("node-a", "node-b")
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
RULES: Final = (
    ("all", "topic", "*"),
    ("all", "group", "*"),
    ("create", "cluster", "kafka-cluster"),
    ("idempotent_write", "cluster", "kafka-cluster"),
)
TAKEN: Final = b"serves newcomers with the new stores"
READY: Final = b"headrace ready: "
LISTENERS: Final = ("plaintext", "controller")
"""What they are called says nothing about what is spoken there."""

REFUSALS: Final = (
    b"failed to log in at listener",
    b"certificate is not accepted",
    b"does not trust this side",
)
"""What a node says when somebody was turned away: a client, or itself by another node."""


class Locks:
    """Keys and passwords of a cluster's nodes and clients."""

    def __init__(self, folder: Path, addresses: Sequence[str]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._hosts = (*addresses, "127.0.0.1", "localhost")
        self._authority = Authority("authority 1")
        self._authorities = 1
        self._passwords = {name: _new_password() for name in (*USERS, *NODE_USERS)}
        self._iterations = 4096
        self._node_user, self._node_users = NODE_USERS[0], NODE_USERS[:1]
        self._trust(self._authority)
        self.login = SaslSslLogin(self._ca_file, USERS[0], self._passwords[USERS[0]])
        self._cluster: HeadraceCluster | None = None
        self._changed_at: dict[Node, int] = {}
        self._turns = self._all_turns()

    # A cluster behind them

    def settings(self) -> dict[str, str]:
        """Of every node."""
        return {
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.plaintext.{MECHANISM.lower()}.sasl.jaas.config": f"{SCRAM} required;",
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._ca_file),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": ";".join(f"User:{name}" for name in NODE_USERS),
            **self._jaas(),
        }

    def fit(self, cluster: HeadraceCluster) -> None:
        """Give each node a certificate, before the cluster is formatted."""
        self._cluster = cluster
        for node in cluster.nodes:
            node.settings["ssl.keystore.location"] = str(self._file_of(node))
        self._certify()

    def let_in(self) -> None:
        """Make the clients' users, and let them use all topics and groups; the cluster runs."""
        with self._admin() as admin:
            admin.alter_user_scram_credentials([self._upsertion(user) for user in USERS])
            admin.create_acls([AclBinding(f"User:{user}", *rule) for user in USERS for rule in RULES])
        self._await_known(USERS)

    def refusals(self) -> list[str]:
        """What nodes said of somebody who was turned away."""
        return [
            f"node {node.number} said: {line.decode(errors='replace')}"
            for node in self._nodes
            for line in node.log.read_bytes().splitlines()
            if any(word in line for word in REFUSALS)
        ]

    # What changes

    def turn_a_key(self) -> str:
        """The next change; what it was. All nodes run."""
        self._await_taken()
        return next(self._turns)()

    def _all_turns(self) -> Iterator[Callable[[], str]]:
        return cycle(
            [
                self._change_password,
                self._renew_certificates,
                self._trust_another,
                self._change_password,
                self._certify_by_another,
                self._distrust_former,
                self._name_node_user,
                self._use_node_user,
                self._forget_node_user,
            ]
        )

    def _change_password(self) -> str:
        (user,) = set(USERS) - {self.login.credentials()[0]}
        self._passwords[user] = _new_password()
        self._iterations += 1
        with self._admin() as admin:
            admin.alter_user_scram_credentials([self._upsertion(user)])
        self._await_known([user])
        self.login.change(user, self._passwords[user])
        return f"a new password of {user}, whom clients use from now on"

    def _renew_certificates(self) -> str:
        self._note_change()
        self._certify()
        return "new certificates of all nodes"

    def _trust_another(self) -> str:
        self._note_change()
        former, self._authorities = self._authority, self._authorities + 1
        self._authority = Authority(f"authority {self._authorities}")
        self._trust(former, self._authority)
        self.login.trust_anew()
        return "another authority, trusted beside the former"

    def _certify_by_another(self) -> str:
        self._note_change()
        self._certify()
        return "certificates by the new authority"

    def _distrust_former(self) -> str:
        self._note_change()
        self._trust(self._authority)
        self.login.trust_anew()
        return "the former authority is trusted no more"

    def _name_node_user(self) -> str:
        (other,) = set(NODE_USERS) - {self._node_user}
        self._passwords[other] = _new_password()
        self._node_users = NODE_USERS
        self._roll()
        return f"a new password of {other}, whom nodes take besides {self._node_user}"

    def _use_node_user(self) -> str:
        (self._node_user,) = set(NODE_USERS) - {self._node_user}
        self._roll()
        return f"nodes are {self._node_user} from now on"

    def _forget_node_user(self) -> str:
        self._node_users = (self._node_user,)
        self._roll()
        return f"nodes take {self._node_user} alone"

    # By hand

    @property
    def _ca_file(self) -> Path:
        return self._folder / "ca.pem"

    @property
    def _nodes(self) -> list[Node]:
        assert self._cluster is not None
        return self._cluster.nodes

    def _file_of(self, node: Node) -> Path:
        return self._folder / f"node{node.number}.pem"

    def _trust(self, *authorities: Authority) -> None:
        _replace(self._ca_file, "".join(each.pem for each in authorities))

    def _certify(self) -> None:
        for node in self._nodes:
            signed = self._authority.sign(f"node{node.number}", self._hosts)
            _replace(self._file_of(node), signed.key_pem() + signed.chain_pem)

    def _jaas(self) -> dict[str, str]:
        users = " ".join(f'user_{name}="{self._passwords[name]}"' for name in self._node_users)
        own = f'username="{self._node_user}" password="{self._passwords[self._node_user]}"'
        return {
            f"listener.name.{name}.plain.sasl.jaas.config": f"{PLAIN} required {own} {users};"
            for name in LISTENERS
        }

    def _roll(self) -> None:
        for node in self._nodes:
            node.settings |= self._jaas()
            node.write_properties()
            node.stop()
            node.start()

    def _upsertion(self, user: str) -> UserScramCredentialUpsertion:
        return UserScramCredentialUpsertion(user, self._passwords[user], MECHANISM, self._iterations)

    def _admin_settings(self) -> dict[str, Any]:
        """Who is a node may do everything."""
        assert self._cluster is not None
        return self.login.headrace() | {
            "bootstrap.servers": self._cluster.bootstrap,
            "sasl.mechanism": "PLAIN",
            "sasl.credentials.provider": lambda: (self._node_user, self._passwords[self._node_user]),
        }

    def _admin(self) -> Admin:
        return Admin(self._admin_settings())

    def _await_known(self, users: Sequence[str]) -> None:
        """Every node has the users' new passwords."""
        for node in self._nodes:
            eventually(
                lambda node=node: asyncio.run(self._are_known(node, users)), f"{users} at node {node.number}"
            )

    async def _are_known(self, node: Node, users: Sequence[str]) -> bool:
        """A password is told by its number of iterations: to try it would be a login that fails."""
        loop = asyncio.get_running_loop()
        host, _, port = node.bootstrap.rpartition(":")
        connection = await connect(
            loop,
            SystemNetwork(),
            host,
            int(port),
            memory=ReceiveMemory(loop),
            client_id="locks",
            channel_builder=channel_builder_of(ClientConfig(ADMIN, self._admin_settings())),
        )
        asked = DescribeUserScramCredentialsRequest([UserName(user) for user in users])
        try:
            reply = await connection.ask(asked, 0, DescribeUserScramCredentialsResponse)
        finally:
            connection.close()
        found = [[info.iterations for info in each.credential_infos] for each in reply.results]
        return found == [[self._iterations]] * len(users)

    def _note_change(self) -> None:
        self._changed_at = {node: node.log.stat().st_size for node in self._nodes if node.log.exists()}

    def _await_taken(self) -> None:
        """Every node has found the files of the last change, or was started after it."""
        for node, at in self._changed_at.items():
            eventually(
                lambda node=node, at=at: _has_taken(node, at), f"node {node.number} took the new files"
            )
        self._changed_at = {}


def _has_taken(node: Node, at: int) -> bool:
    said = node.log.read_bytes()[at:]
    return said.count(TAKEN) >= len(LISTENERS) or READY in said


def _replace(path: Path, text: str) -> None:
    """At once, so that nobody reads half of it."""
    new = path.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_text(text)
    new.replace(path)


def _new_password() -> str:
    return secrets.token_urlsafe(24)
