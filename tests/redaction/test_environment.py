"""The values of an environment that count as secrets."""

import json

import pytest

from evalgate.redaction.environment import find_secrets, is_secret_name, is_worth_hiding


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN",
        "INPUT_GITHUB-TOKEN",
        "OPENAI_API_KEY",
        "OPENAI_API_KEY_2",
        "apiKey",
        "dbPassword",
        "DB_PASSWD",
        "AWS_SECRET_ACCESS_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS_JSON",
        "DOCKER_AUTH_CONFIG",
        "X-Api-Key",
        "SLACK_WEBHOOK_URL",
        "SENTRY_DSN",
        "JWT",
        "MYTOKEN",
        "ANTHROPIC_AUTH_TOKEN",
        "SIGNING_KEY",
        "PASSPHRASE",
        "private_key_id",
        "privateKeyId",
    ],
)
def test_a_name_that_says_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "AUTHOR",
        "GIT_AUTHOR_NAME",
        "KEYBOARD",
        "MONKEY",
        "TOKENIZERS_PARALLELISM",
        "MAX_TOKENS",
        "max_tokens",
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "SSH_PUBLIC_KEY",
        "CACHE_KEY",
        "GITHUB_TOKEN_FILE",
        "AUTH_TYPE",
        "AWS_ACCESS_KEY_ID",
        "PASSED",
        "COMPASS",
        "PATTERN",
        "SALTED",
    ],
)
def test_a_name_that_does_not(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("value", "worth"),
    [
        ("hunter2", True),
        ("correct horse", True),
        ("c0ffee", True),
        ("/wJalrXUtnFEMI/K7MDENG+bPxRfiCY", True),
        ("123456789012345", True),
        ("longsecretword", True),
        ("short", False),
        ("", False),
        ("true", False),
        ("openai", False),
        ("default", False),
        ("Password", False),
        ("100000", False),
        ("2026-11-21", False),
        ("/home/runner/.token", False),
        ("~/.netrc", False),
        ("./secrets/key", False),
        ("C:\\Users\\me", False),
        ("xxxxxxxxxxxx", False),
        ("ab***cdef", False),
        ("postgres", False),
        ("Postgres", False),
        ("customer", False),
        ("order_id", False),
        ("orderId", False),
        ("not-needed", False),
        ("your-api-key-here", False),
        ("lm-studio", False),
        ("postgres1", True),
        ("sunshine", True),
        ("order customer ticket", True),
        ("not-neededx", True),
        ("postgres_qzxv", True),
    ],
)
def test_a_value_that_can_be_hidden_everywhere(value: str, *, worth: bool) -> None:
    assert is_worth_hiding(value) is worth


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("SORT_KEY", "shipment_ref_id", False),
        ("PARTITION_KEY", "created_at", False),
        ("sortKey", "shipment_ref_id", False),
        ("KEY", "shipment_ref_id", False),
        ("SORT_KEY", "shipment_ref_id7", True),
        ("SORT_KEY", "hwqkzjxvbnmt", True),
        ("API_KEY", "shipment_ref_id", True),
        ("SECRET_KEY", "shipment_ref_id", True),
        ("AUTH_KEY", "shipment_ref_id", True),
        ("DB_PASSWORD", "shipment_ref_id", True),
        ("TOKEN", "shipment_ref_id", True),
        *((name, value, False)
          for name in ("PARTITION_KEY", "OPENAI_API_KEY", "DB_PASSWORD", "A_TOKEN")
          for value in ("postgres", "order_id", "customer", "not-needed", "test", "none")),
    ],
)  # fmt: skip
def test_a_name_of_a_column_is_hidden_unless_the_variable_is_a_bare_key(
    name: str, value: str, *, hidden: bool
) -> None:
    assert list(find_secrets({name: value})) == ([value] if hidden else [])


PEM = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA\nQyNTUxOQAAACB7\n-----END KEY-----"

USER_TOKEN = "abcdef0123456789abcdef0123"

AWS_PROFILE = "[default]\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG\nregion = eu-west-1"


@pytest.mark.parametrize(
    ("environ", "secrets"),
    [
        ({}, []),
        ({"API_KEY": "  s3cret-value\n"}, ["s3cret-value"]),
        ({"API_KEY": "", "NAME": "s3cret-value"}, []),
        ({"PWD": "/work/project-1", "OLDPWD": "/work/project-1"}, []),
        ({"MYSQL_PWD": "/work/project-1"}, ["/work/project-1"]),
        ({"DATABASE_URL": "postgres://me:pa55w%40rd@host/db"}, ["pa55w%40rd", "pa55w@rd"]),
        ({"DATABASE_URL": "postgres://host/db", "AUTH_URL": "https://login.example/x1"}, []),
        ({"TOKEN_URL": "https://[broken"}, []),
        (
            {"SLACK_WEBHOOK_URL": "https://hooks.example/T0/B0/x1y2"},
            ["https://hooks.example/T0/B0/x1y2"],
        ),
        ({"SSH_KEY": PEM}, [PEM, "MIIEowIBAAKCAQEA", "QyNTUxOQAAACB7"]),
        (
            {"GCP_CREDENTIALS": json.dumps({"type": "service_account", "private_key": PEM})},
            [
                json.dumps({"type": "service_account", "private_key": PEM}),
                PEM,
                "MIIEowIBAAKCAQEA",
                "QyNTUxOQAAACB7",
            ],
        ),
        (
            {"DOCKER_AUTH_CONFIG": '{"auths": {"host": [{"auth": "dXNlcjpw"}]}}'},
            ['{"auths": {"host": [{"auth": "dXNlcjpw"}]}}', "dXNlcjpw"],
        ),
        ({"JSON_SECRET": "{not json 1"}, ["{not json 1"]),
        ({"ACCOUNT": '{"type": "x", "private_key_id": "0a1b2c3d"}'}, ["0a1b2c3d"]),
        ({"CONTEXT": '{"event": {"token": "s3cret-value", "ref": "refs/heads/x1"}}'}, ["s3cret-value"]),
        (
            {"WHERE": "https://0123456789abcdef0123456789abcdef@o1.ingest.sentry.io/1"},
            ["0123456789abcdef0123456789abcdef"],
        ),
        (
            {"CONF": '[{"token": "s3cret-value"}, [[{"password": "hunter2!x9"}]]]'},
            ["hunter2!x9", "s3cret-value"],
        ),
        ({"CONF": '["s3cret-value"]', "MARK": "[", "EMPTY": ""}, []),
        (
            {"API_TOKENS": '["canary-1-one", ["canary-2-two"], "short", "postgres", 12345678]'},
            [
                '["canary-1-one", ["canary-2-two"], "short", "postgres", 12345678]',
                "canary-2-two",
                "canary-1-one",
            ],
        ),
        ({"SORT_KEYS": '["shipment_ref_id", "customer"]'}, ['["shipment_ref_id", "customer"]']),
        ({"API_TOKENS": '[{"user": "canary-1-one", "n": 1}]'}, ['[{"user": "canary-1-one", "n": 1}]']),
        ({"API_TOKEN": '"canary-1-one"'}, ['"canary-1-one"', "canary-1-one"]),
        (
            {"AWS_CREDENTIALS": AWS_PROFILE},
            [
                AWS_PROFILE,
                "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG",
                "region = eu-west-1",
                "wJalrXUtnFEMI/K7MDENG",
            ],
        ),
        ({"AWS_PROFILE_TEXT": AWS_PROFILE}, ["wJalrXUtnFEMI/K7MDENG"]),
        *(({"AWS_PROFILE_TEXT": before + AWS_PROFILE}, ["wJalrXUtnFEMI/K7MDENG"])
          for before in ("; made by hand\n", "# a\n\n \t\r\n  ; b\r\n", "\n")),
        ({"NOTES": "; password\n" * 20_000}, []),
        ({"CLONE": f"https://{USER_TOKEN}@host/x"}, [USER_TOKEN]),
        ({"CLONE": f"HTTPS://{USER_TOKEN}:x-oauth-basic@host/x"}, [USER_TOKEN, "x-oauth-basic"]),
        ({"CLONE": f"git+https://{USER_TOKEN}%2B@host/x"}, [f"{USER_TOKEN}%2B", f"{USER_TOKEN}+"]),
        ({"CLONE": f"https://host/{USER_TOKEN}", "PLAIN": "https://some-long-user-name-1@host"}, []),
        ({"NOTES": "Auth: uses sessions, not tokens\nKey: shift-f10"}, []),
        ({"DEEP_SECRET": "[" * 100_000}, []),
    ],
)  # fmt: skip
def test_the_secrets_of_an_environment(environ: dict[str, str], secrets: list[str]) -> None:
    assert list(find_secrets(environ)) == secrets


@pytest.mark.parametrize(
    ("name", "items", "hidden"),
    [
        ("WEBHOOK_EVENTS", ["order.refunded", "invoice.paid"], []),
        ("WEBHOOK_EVENTS", ["Order 66 refunded", "invoice paid"], []),
        ("AUTH_PROVIDERS", ["github-enterprise", "okta-sso"], []),
        ("AUTH_PROVIDERS", ["okta-sso", "s3cret-value"], ["s3cret-value"]),
        ("SLACK_WEBHOOKS", ["https://hooks.example/T0/B0/x1y2"], ["https://hooks.example/T0/B0/x1y2"]),
        *((name, ["correct horse", "longsecretword"], ["longsecretword", "correct horse"])
          for name in ("API_TOKENS", "SECRETS", "dbPasswords", "PASSPHRASES", "API_KEYS", "API_TOKEN", "TOKENS_2")),
    ],
)  # fmt: skip
def test_words_of_a_list_are_hidden_only_if_the_name_ends_like_that_of_a_secret(
    name: str, items: list[str], hidden: list[str]
) -> None:
    value = json.dumps(items)
    assert list(find_secrets({name: value})) == [value, *hidden]


def test_at_most_three_layers_of_quotes_are_taken_off() -> None:
    layers = ["canary-1-one"]
    for quote in "'\"'\"":
        layers.append(f"{quote}{layers[-1]}{quote}")
    assert list(find_secrets({"API_TOKEN": layers[4]})) == layers[4:0:-1]
    deep = "'\"" * 3000 + "canary-1-one" + "\"'" * 3000
    assert list(find_secrets({"API_TOKEN": deep})) == [deep[n : len(deep) - n] for n in range(4)]
    assert list(find_secrets({"API_TOKEN": "'\"" * 3000 + "'"}))[1:] == []
