"""TLS of the client: whom to trust, who it is, and what is said of a file that cannot be used."""

from __future__ import annotations

import os
import ssl

from sparkhaven.ingest.feeds.kafka.client_settings import Tls
from sparkhaven.store.errors import SettingsError


def tls_context(tls: Tls) -> ssl.SSLContext:
    """For connections of these settings. SettingsError for certificates or keys that cannot be used."""
    name = "ssl.truststore.location"
    try:
        context = ssl.create_default_context(cafile=tls.trusted_file or None, cadata=tls.trusted or None)
        context.check_hostname = tls.by_name
        if tls.ciphers:
            name = "ssl.cipher.suites"
            context.set_ciphers(tls.ciphers)
        if tls.revoked_file:
            name = "ssl.crl.location"
            context.load_verify_locations(tls.revoked_file)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        name = "ssl.keystore.location"
        if tls.own_file:
            context.load_cert_chain(tls.own_file, password=tls.password)
        elif tls.key:
            name = "ssl.keystore.key"
            _load_text(context, f"{tls.key}\n{tls.chain}\n", tls.password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SettingsError(
            "the Kafka client cannot use its certificates or keys",
            where=f"feed.client {name}",
            expected="PEM, as openssl writes it" if name != "ssl.cipher.suites" else "ciphers by OpenSSL's names",
            found=getattr(error, "strerror", None) or str(error),
            hint="correct the file. Stores of Java's become PEM by keytool -importkeystore and openssl pkcs12",
        ) from None
    return context


def _load_text(context: ssl.SSLContext, text: str, password: str) -> None:
    """A key that is a text, by a file in memory: Python's ssl takes files only."""
    number = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(number, text.encode())
        context.load_cert_chain(f"/proc/self/fd/{number}", password=password)
    finally:
        os.close(number)
