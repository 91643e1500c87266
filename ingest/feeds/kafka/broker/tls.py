"""How the client secures and proves itself: TLS, and tokens of OAUTHBEARER.

TLS: whom to trust, who it is, and what is said of a file that cannot be used. Tokens are asked for by client
credentials (RFC 6749, 4.4), and used until most of their life is over.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

import kafka.errors as kp
from kafka.net.sasl.oauth import AbstractTokenProvider

from sparkhaven.ingest.feeds.kafka.client_settings import Login, Tls
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


ASK_SECONDS = 10.0
USED = 0.8  # of the life of a token, before another one is asked for
MOST = 1 << 20  # bytes of an answer


class OidcTokens(AbstractTokenProvider):  # type: ignore[misc]
    """The tokens of one client. The endpoint is trusted as the broker is."""

    def __init__(self, login: Login, tls: Tls, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._login, self._clock = login, clock
        self._context = tls_context(tls) if login.endpoint.startswith("https:") else None
        self._token, self._until = "", 0.0

    def token(self) -> str:
        """A token that is good for a while.

        Raises:
            SaslAuthenticationFailedError: The endpoint refuses the client.
            KafkaConnectionError: It does not answer, or with something else.
        """
        if self._clock() >= self._until:
            self._token, life = self._asked()
            self._until = self._clock() + USED * life
        return self._token

    def _asked(self) -> tuple[str, float]:
        login = self._login
        form = {"grant_type": "client_credentials", **({"scope": login.scope} if login.scope else {})}
        basic = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Accept": "application/json"}
        data = urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(login.endpoint, data, headers)  # noqa: S310  the settings check it
        try:
            with urllib.request.urlopen(request, timeout=ASK_SECONDS, context=self._context) as answer:  # noqa: S310
                told = json.loads(answer.read(MOST))
            return str(told["access_token"]), float(told.get("expires_in", 0))
        except urllib.error.HTTPError as error:
            error.close()
            words = f"the token endpoint answers {error.code} {error.reason}"
            kind = kp.SaslAuthenticationFailedError if error.code in (400, 401, 403) else kp.KafkaConnectionError
            raise kind(words) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise kp.KafkaConnectionError(f"the token endpoint gives no token: {error!r}") from None
