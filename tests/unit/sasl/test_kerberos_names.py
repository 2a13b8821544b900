"""Short names for Kerberos principals: the rules of Apache Kafka's tests for them, and what is refused."""

from __future__ import annotations

import pytest

from ottla.sasl.kerberos_names import KerberosNames, RuleError

REALM = "REALM.COM"
RULES = (
    "RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g",
    "RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g",
    "DEFAULT",
)


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        (RULES, "App.service-name/example.com@REALM.COM", "service-name"),
        (RULES, "App.service-name@REALM.COM", "service-name"),
        (RULES, "user/host@REALM.COM", "user"),
        (RULES, "user@REALM.COM", "user"),
        (("RULE:[1:$1]/L", "DEFAULT"), "User@REALM.COM", "user"),
        (("RULE:[2:$1]/L", "DEFAULT"), "TestABC/host@FOO.COM", "testabc"),
        (("RULE:[1:$1]/U", "DEFAULT"), "User@REALM.COM", "USER"),
        (("RULE:[2:$2](host.*)s/host/machine/", "DEFAULT"), "user/host1@REALM.COM", "machine1"),
        (("RULE:[1:$1](a.*)s/a/b/g",), "aaa@X.COM", "bbb"),
        (("RULE:[1:$1](a.*)s/a/b/",), "aaa@X.COM", "baa"),
        (("RULE:[1:$1@$0](.*@OTHER)s/@.*//",), "joe@OTHER", "joe"),
        # A list of the configuration is cut at commas.
        (("RULE:[1:$1](x{1", "3})s/x/y/g", "DEFAULT"), "xx@X.COM", "yy"),
        # No rule fits, or what comes out is no name.
        (("DEFAULT",), "user@OTHER.COM", None),
        (("RULE:[1:$1@$0]",), "user@OTHER.COM", None),
        (("RULE:[1:$1]s/.*//",), "user@OTHER.COM", None),
        (("DEFAULT",), "user", None),
        (("DEFAULT",), "a/b/c@REALM.COM", None),
        (("DEFAULT",), "", None),
    ],
)
def test_names(rules: tuple[str, ...], principal: str, name: str | None) -> None:
    assert KerberosNames(rules, REALM).short(principal) == name


@pytest.mark.parametrize(
    "rule", ["default", "RULE:", "RULE:[1", "RULE:[a:$1]", "RULE:[1:$1](", "RULE:[1:$1](*)", "RULE:[1:$1]s/a/$2/", "x"]
)
def test_texts_that_are_no_rule(rule: str) -> None:
    with pytest.raises(RuleError, match=r"rule|regular expression"):
        KerberosNames((rule,), REALM)
