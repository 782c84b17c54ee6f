"""TLS on listeners. The notation: see table.py."""

from typing import Final

from headrace.settings.definition import Setting
from headrace.settings.table import read_table

BROKER_TLS: Final[dict[str, Setting]] = read_table("""
security.providers  string null  low
    Java classes that provide security algorithms.
    No effect: a Java class cannot be loaded here.
ssl.allow.dn.changes  boolean false  low
    Whether a certificate may be replaced by one of another name while running.
ssl.allow.san.changes  boolean false  low
    Whether a certificate may be replaced by one with other alternative names while running.
ssl.cipher.suites  list ""  per-broker
    Ciphers that are allowed; empty is all that are sound.
ssl.client.auth  string none  {required,requested,none}  per-broker
    Whether clients must, may or need not show a certificate.
ssl.crl.location  string ""  per-broker
    File with lists of revoked certificates (CRL), which are refused. Not in Kafka; librdkafka's name.
ssl.enabled.protocols  list TLSv1.2,TLSv1.3  per-broker
    TLS versions that are allowed.
ssl.endpoint.identification.algorithm  string https  low  per-broker
    How a server's name is checked against its certificate; empty is not at all.
ssl.engine.factory.class  class null  low  per-broker
    Java class that makes TLS engines.
    No effect: a Java class cannot be loaded here.
ssl.key.password  password null  per-broker
    Password of the private key.
ssl.keymanager.algorithm  string SunX509  per-broker
    Java's algorithm for key managers.
    No effect: there is no JVM here.
ssl.keystore.certificate.chain  password null  per-broker
    The certificate chain itself, as PEM.
ssl.keystore.key  password null  per-broker
    The private key itself, as PEM.
ssl.keystore.location  string null  per-broker
    File with the private key and its certificates.
ssl.keystore.password  password null  per-broker
    Password of that file.
ssl.keystore.type  string JKS  per-broker
    Format of that file: JKS, PKCS12 or PEM.
ssl.principal.mapping.rules  string DEFAULT  low
    How a certificate's name becomes a user's name.
ssl.protocol  string TLSv1.3  per-broker
    TLS version to prefer.
ssl.provider  string null  per-broker
    Java's security provider.
    No effect: there is no JVM here.
ssl.secure.random.implementation  string null  low  per-broker
    Java's source of random numbers.
    No effect: there is no JVM here.
ssl.trustmanager.algorithm  string PKIX  per-broker
    Java's algorithm for trust managers.
    No effect: there is no JVM here.
ssl.truststore.certificates  password null  per-broker
    The trusted certificates themselves, as PEM.
ssl.truststore.location  string null  per-broker
    File with the trusted certificates.
ssl.truststore.password  password null  per-broker
    Password of that file.
ssl.truststore.type  string JKS  per-broker
    Format of that file: JKS, PKCS12 or PEM.
""")

TLS_OF_CLIENTS: Final[dict[str, Setting]] = {
    name: BROKER_TLS[name]
    for name in (
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
}
"""Those that a client has as well, with the same defaults."""
