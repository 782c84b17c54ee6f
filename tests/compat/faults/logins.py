"""Who the clients of a run are, each library in its own words: nobody in particular (`Login`), or a user with
a password over TLS, both of which change while the run goes on (`SaslSslLogin`).

`number` rises with each change. Our own client and librdkafka take a new password as they are; programs with
other libraries, and all of them where another authority is to be trusted, open a client anew when they see
that."""

import ssl
from pathlib import Path
from typing import Any, Final

MECHANISM: Final = "SCRAM-SHA-512"


class Login:
    """Of a cluster without locks: nothing to say."""

    number = 0
    """Of the state in which clients have to be."""

    authority_number = 0
    """The same, of those who take a new user and password as they are."""

    def credentials(self) -> tuple[str, str]:
        raise AssertionError("nobody logs in here")

    def librdkafka(self) -> dict[str, Any]:
        return {}

    def headrace(self) -> dict[str, Any]:
        return {}

    def aiokafka(self) -> dict[str, Any]:
        return {}

    def kafka_python(self) -> dict[str, Any]:
        return {}


class SaslSslLogin(Login):
    """A user of the cluster; `ca_file` has the authorities that are trusted."""

    def __init__(self, ca_file: Path, user: str, password: str) -> None:
        self._ca_file = ca_file
        self._credentials = (user, password)

    def change(self, user: str, password: str) -> None:
        """For every login from now on."""
        self._credentials = (user, password)
        self.number += 1

    def trust_anew(self) -> None:
        """The file of authorities is another one."""
        self.authority_number += 1
        self.number += 1

    def credentials(self) -> tuple[str, str]:
        return self._credentials

    def librdkafka(self) -> dict[str, Any]:
        user, password = self._credentials
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._ca_file),
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": password,
        }

    def headrace(self) -> dict[str, Any]:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._ca_file),
            "sasl.mechanism": MECHANISM,
            "sasl.credentials.provider": self.credentials,
        }

    def aiokafka(self) -> dict[str, Any]:
        return self._python() | {"ssl_context": ssl.create_default_context(cafile=str(self._ca_file))}

    def kafka_python(self) -> dict[str, Any]:
        return self._python() | {"ssl_cafile": str(self._ca_file)}

    def _python(self) -> dict[str, Any]:
        user, password = self._credentials
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
        }


NOBODY: Final = Login()
