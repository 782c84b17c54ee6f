"""Names of cipher suites: Java's in settings, OpenSSL's underneath."""

from headrace.security.cipher_suites import openssl_names


def test_javas_names_become_openssls() -> None:
    assert openssl_names(
        [
            "TLS_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256",
            "TLS_RSA_WITH_AES_128_CBC_SHA",
            "ECDHE-RSA-AES128-GCM-SHA256",
        ]
    ) == (
        [
            "ECDHE-RSA-AES256-GCM-SHA384",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
            "DHE-RSA-AES128-SHA256",
            "AES128-SHA",
            "ECDHE-RSA-AES128-GCM-SHA256",
        ],
        ["TLS_AES_128_GCM_SHA256"],
    )
