"""``[feed.client]``: Java's names and what they mean; what is said of other names; and that no secret is shown."""

from __future__ import annotations

import pytest

from sparkhaven.ingest.feeds.kafka.broker.errors import terms_of
from sparkhaven.ingest.feeds.kafka.client_settings import ELSEWHERE, KNOWN, OTHERS, ClientTerms, client_terms
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions
from sparkhaven.store.errors import SettingsError

PLAIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
MODULE = "org.apache.kafka.common.security"
TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
}


def terms(**values: str) -> ClientTerms:
    return client_terms(ClientSettings(tuple(values.items())))


def test_defaults() -> None:
    made = terms()
    assert (made.protocol, made.login.mechanism, made.group, made.lookup) == (
        "PLAINTEXT",
        "",
        "sparkhaven",
        "use_all_dns_ips",
    )
    fetch = made.fetch
    assert (fetch.committed, fetch.checked, fetch.portion, fetch.wait_ms) == (True, True, 4 << 20, 20)
    assert made.tls.by_name and made.numbers["receive.buffer.bytes"] == -1


def test_values() -> None:
    made = terms(
        **{
            "security.protocol": "ssl",
            "isolation.level": "read_uncommitted",
            "check.crcs": "FALSE",
            "fetch.max.wait.ms": "5",
            "client.rack": "one",
            "metadata.max.age.ms": "60000",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert made.protocol == "SSL" and not made.tls.by_name and not made.fetch.committed and not made.fetch.checked
    assert (made.fetch.wait_ms, made.fetch.rack, made.fetch.replica_seconds) == (5, "one", 60.0)


def test_a_login_by_names_or_by_a_module_of_java() -> None:
    named = terms(**PLAIN, **{"sasl.username": "me", "sasl.password": 'a"b'}).login
    text = f'{MODULE}.plain.PlainLoginModule required username="me" password="a\\"b";'
    assert terms(**PLAIN, **{"sasl.jaas.config": text}).login == named
    options = 'clientId="app" clientSecret="tiger" scope="kafka"'
    text = f"{MODULE}.oauthbearer.OAuthBearerLoginModule required {options} ;"
    by_module = terms(**TOKENS, **{"sasl.jaas.config": text}).login
    name = "sasl.oauthbearer.client.credentials.client."
    given = {f"{name}id": "app", f"{name}secret": "tiger", "sasl.oauthbearer.scope": "kafka"}
    assert by_module == terms(**TOKENS, **given).login
    assert (by_module.user, by_module.endpoint, by_module.scope) == ("app", "https://login/token", "kafka")
    assert "tiger" not in repr(by_module) and "tiger" not in repr(terms(**TOKENS, **given))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"security.protocol": "tls"}, "security.protocol: expected PLAINTEXT or SSL"),
        ({"fetch.max.wait.ms": "5 s"}, "fetch.max.wait.ms: expected a whole number"),
        ({"check.crcs": "yes"}, "check.crcs: expected true or false"),
        ({"ssl.truststore.type": "JKS"}, "ssl.truststore.type: expected PEM"),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.certificate.chain is missing"),
        ({"isolaton.level": "x"}, "did you mean isolation.level?"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: expected PLAIN or SCRAM-SHA-256"),
        ({**PLAIN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism: expected PLAIN"),
        (PLAIN, "sasl.username: expected the user of PLAIN"),
        ({**PLAIN, "sasl.jaas.config": "x"}, "sasl.jaas.config: expected a login module"),
        (TOKENS, "client.credentials.client.id: expected a text"),
        ({**TOKENS, "sasl.oauthbearer.token.endpoint.url": ""}, "endpoint.url: expected a text"),
    ],
)
def test_what_is_refused(values: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match="^" if "?" in words else None) as caught:
        terms(**values)
    assert words in str(caught.value)


def test_names_of_others_are_refused_with_the_name_to_write() -> None:
    assert not OTHERS.keys() & KNOWN.keys() and not ELSEWHERE.keys() & KNOWN.keys()
    assert set(OTHERS.values()) <= {*KNOWN, "feed.bootstrap"}
    for name, java in OTHERS.items():
        with pytest.raises(ValueError, match="a name of librdkafka") as caught:
            terms(**{name: "tiger"})
        assert f"Write {java}" in str(caught.value) and "tiger" not in str(caught.value)
    for name in ELSEWHERE:
        with pytest.raises(ValueError, match="the stream sets itself"):
            terms(**{name: "x"})


def test_no_secret_is_shown() -> None:
    text = f'{MODULE}.plain.PlainLoginModule required username="leo" password="tiger";'
    settings = ClientSettings((*PLAIN.items(), ("sasl.jaas.config", text), ("sasl.password", "lion")))
    assert settings.hide("leo says tiger, lion and bear") == "*** says ***, *** and bear"
    assert "tiger" not in repr(settings) + repr(client_terms(settings))
    with pytest.raises(SettingsError, match="refuses its settings") as caught:
        terms_of(KafkaOptions("b:1", client=ClientSettings((("sasl.pasword", "tiger"),))))
    assert "tiger" not in str(caught.value) and "did you mean sasl.password?" in str(caught.value)
