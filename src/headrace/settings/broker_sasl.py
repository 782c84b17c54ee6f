"""Who clients are and what they may do: SASL, tokens, authorisation. The notation: see table.py."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import joined, read_table

BROKER_SASL: Final[dict[str, Setting]] = read_table("""
authorizer.class.name  string ""  low
    Class that decides what each user may do; empty lets everyone do everything.
connection.failed.authentication.delay.ms  int 100  low  0..
    Milliseconds that a failed login is kept waiting before its connection is closed.
connections.max.reauth.ms  long 0
    Milliseconds after which a client must log in again; 0 is never.
delegation.token.expiry.check.interval.ms  long 3600000  low  1..
    Milliseconds between two looks for tokens that have expired.
delegation.token.expiry.time.ms  long 86400000  1..
    Milliseconds that a token is good for before it must be renewed.
delegation.token.max.lifetime.ms  long 604800000  1..
    Milliseconds after which a token can no longer be renewed.
delegation.token.secret.key  password null
    Secret that tokens are signed with, the same on all nodes; without it there are no tokens.
principal.builder.class  class \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder  per-broker
    Class that turns a connection into a user.
    No effect: the built-in rules are always used, and a node that is given another class does not start.
sasl.client.callback.handler.class  class null
    Class behind the node's own logins as a client.
    No effect: a Java class cannot be loaded here.
sasl.enabled.mechanisms  list GSSAPI  per-broker
    Login mechanisms that are offered.
sasl.jaas.config  password null  per-broker
    Login module and its options, in the form of a JAAS file.
sasl.kerberos.kinit.cmd  string /usr/bin/kinit  per-broker
    Path of kinit.
    No effect: no program is run; tickets come of the keytab, or are in a cache.
sasl.kerberos.min.time.before.relogin  long 60000  per-broker
    Milliseconds between two attempts to renew a Kerberos login.
    No effect: new tickets are had when a login needs them.
sasl.kerberos.principal.to.local.rules  list DEFAULT  per-broker
    How a Kerberos name becomes a user's name.
sasl.kerberos.service.name  string null  per-broker
    Kerberos name of the service: the first part of the brokers' principal.
sasl.kerberos.ticket.renew.jitter  double 0.05  per-broker
    Share by which the time of renewal varies by chance.
    No effect: new tickets are had when a login needs them.
sasl.kerberos.ticket.renew.window.factor  double 0.8  per-broker
    Share of a ticket's life after which it is renewed.
    No effect: the system's library has new ones when half of it is over.
sasl.login.callback.handler.class  class null
    Class behind the node's own logins.
    No effect: a Java class cannot be loaded here.
sasl.login.class  class null
    Class that logs in.
    No effect: a Java class cannot be loaded here.
sasl.login.connect.timeout.ms  int null  low
    Milliseconds that connecting to an OAuth provider may take.
sasl.login.read.timeout.ms  int null  low
    Milliseconds that an answer of an OAuth provider may take.
sasl.login.refresh.buffer.seconds  short 300  per-broker
    Seconds before its end at which a login is renewed at the latest.
sasl.login.refresh.min.period.seconds  short 60  per-broker
    Seconds that a login is used at least before it is renewed.
sasl.login.refresh.window.factor  double 0.8  per-broker
    Share of a login's life after which it is renewed.
sasl.login.refresh.window.jitter  double 0.05  per-broker
    Share by which that time varies by chance.
sasl.login.retry.backoff.max.ms  long 10000  low
    Most milliseconds between two attempts to reach an OAuth provider.
sasl.login.retry.backoff.ms  long 100  low
    Milliseconds between two attempts to reach an OAuth provider, at first.
sasl.mechanism.controller.protocol  string GSSAPI  high
    Login mechanism towards the controller.
sasl.mechanism.inter.broker.protocol  string GSSAPI  per-broker
    Login mechanism between brokers.
sasl.oauthbearer.assertion.algorithm  string RS256  {es256,rs256}  any-case
    Algorithm that signs assertions to an OAuth provider.
sasl.oauthbearer.assertion.claim.aud  string null
    Audience named in those assertions.
sasl.oauthbearer.assertion.claim.exp.seconds  int 300  low  0..86400
    Seconds that such an assertion is good for.
sasl.oauthbearer.assertion.claim.iss  string null
    Issuer named in those assertions.
sasl.oauthbearer.assertion.claim.jti.include  boolean false
    Whether those assertions carry an id of their own.
sasl.oauthbearer.assertion.claim.nbf.seconds  int 60  low  0..3600
    Seconds in the past from which such an assertion is good.
sasl.oauthbearer.assertion.claim.sub  string null
    Subject named in those assertions.
sasl.oauthbearer.assertion.file  string null
    File with a finished assertion.
sasl.oauthbearer.assertion.private.key.file  string null
    File with the private key that signs assertions, as PEM.
sasl.oauthbearer.assertion.private.key.passphrase  password null
    Password of that key.
sasl.oauthbearer.assertion.template.file  string null
    File with the fixed parts of an assertion, as JSON.
sasl.oauthbearer.client.credentials.client.id  string null
    Client id for an OAuth provider.
sasl.oauthbearer.client.credentials.client.secret  password null
    Client secret for an OAuth provider.
sasl.oauthbearer.clock.skew.seconds  int 30  low
    Seconds by which an OAuth provider's clock may differ.
sasl.oauthbearer.expected.audience  list ""  high
    Audiences that a token must name one of.
sasl.oauthbearer.expected.issuer  string null  high
    Issuer that a token must name.
sasl.oauthbearer.jwks.endpoint.refresh.ms  long 3600000  low
    Milliseconds that an OAuth provider's keys are kept before they are read again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms  long 10000  low
    Most milliseconds between two attempts to read those keys.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms  long 100  low
    Milliseconds between two attempts to read those keys, at first.
sasl.oauthbearer.jwks.endpoint.url  string null
    Where those keys are read: an HTTPS or file address.
sasl.oauthbearer.jwt.retriever.class  class org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
    Class that fetches tokens.
    No effect: a Java class cannot be loaded here.
sasl.oauthbearer.jwt.validator.class  class org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    Class that checks tokens.
    No effect: a Java class cannot be loaded here.
sasl.oauthbearer.scope  string null
    Scope that is asked for with a token.
sasl.oauthbearer.scope.claim.name  string scope  low
    Name of the claim that holds a token's scope.
sasl.oauthbearer.sub.claim.name  string sub  low
    Name of the claim that holds a token's user.
sasl.oauthbearer.token.endpoint.url  string null
    Where tokens are fetched: an HTTPS or file address.
sasl.server.callback.handler.class  class null
    Class behind logins of clients, for one listener and mechanism.
    No effect: a Java class cannot be loaded here.
sasl.server.max.receive.size  int 524288
    Largest message of a login, in bytes.
""")

SASL_OF_CLIENTS: Final[dict[str, Setting]] = joined(
    read_table("""
sasl.mechanism  string GSSAPI
    How this client logs in: GSSAPI, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
sasl.mechanisms  string null
    The same, as librdkafka names it.
sasl.credentials.provider  string null
    A function of Python's that gives user and password, as two texts, whenever this client logs in.
sasl.oauthbearer.token.provider  string null
    A function of Python's that gives a token whenever one is needed, in place of a provider's endpoint.
sasl.kerberos.keytab  string null
    A file with the keys of sasl.kerberos.principal, for GSSAPI, where there is no sasl.jaas.config.
sasl.kerberos.principal  string null
    Who this client is to Kerberos; without a keytab the system's ticket cache says so (kinit).
sasl.username  string null
    Who this client is, for PLAIN and SCRAM, where there is no sasl.jaas.config.
sasl.password  password null
    The password of that user.
"""),
    {
        name: BROKER_SASL[name]
        for name in (
            "sasl.jaas.config",
            "sasl.kerberos.kinit.cmd",
            "sasl.kerberos.min.time.before.relogin",
            "sasl.kerberos.service.name",
            "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.token.endpoint.url",
        )
    },
)
"""Those of a client's login, with the names of Kafka and of librdkafka."""
