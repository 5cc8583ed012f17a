"""What a redactor replaces in a text, and what it leaves."""

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.redaction.redactor import Redactor

PLAIN = Redactor()

# Put together here, so that no scanner of this repository takes them for somebody's.
ALNUM = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"
TOKENS = [
    "ghp_" + ALNUM[:36],
    "ghs_" + ALNUM[:36],
    "gho_" + ALNUM[:36],
    "github_pat_" + ALNUM[:22] + "_" + ALNUM,
    "glpat-" + ALNUM[:20],
    "glpat-" + ALNUM[:27] + ".01.0w1a2b3c4",
    "glcbt-" + "64_" + ALNUM[:20],
    "glrt-" + ALNUM[:20],
    "ATATT3" + "xFfGF0" + ALNUM,
    "ATBB" + ALNUM[:28],
    "bkua_" + ALNUM,
    "dckr_pat_" + ALNUM[:27],
    "hvs." + ALNUM,
    "glsa_" + ALNUM[:32] + "_1a2b3c4d",
    "lin_api_" + ALNUM,
    "ntn_" + ALNUM,
    "NRAK-" + ALNUM[:27].upper(),
    "pcsk_" + ALNUM,
    "sbp_" + "a1b2c3d4e5" * 4,
    "sntrys_" + ALNUM + ALNUM,
    "sq0atp-" + ALNUM[:22],
    "123456789:" + "AA" + ALNUM[:33],
    "sk-" + ALNUM,
    "sk-proj-" + ALNUM + "-" + ALNUM,
    "sk-ant-api03-" + ALNUM + "-" + ALNUM,
    "sk_live_" + ALNUM[:24],
    "rk_test_" + ALNUM[:24],
    "whsec_" + ALNUM[:32],
    "AKIA" + "IOSFODNN7ABCDEFG",
    "xoxb-" + "123456789012-" + ALNUM[:24],
    "xapp-" + "1-A0-" + ALNUM,
    "AIza" + ALNUM[:35],
    "ya29." + ALNUM,
    "eyJ" + ALNUM[:20] + ".eyJ" + ALNUM + "." + ALNUM,
    "npm_" + ALNUM[:36],
    "pypi-" + "AgEIcHlwaS5vcmc" + ALNUM,
    "hf_" + ALNUM[:34],
    "gsk_" + ALNUM,
    "r8_" + ALNUM[:37],
    "lsv2_" + "pt_" + ALNUM,
    "dapi" + "0123456789abcdef" * 2,
    "SG." + ALNUM[:22] + "." + ALNUM,
    "shpat_" + "0123456789abcdef" * 2,
]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("frame", ["{}", "the key {} is wrong", '{{"x": "{}"}}', "a={};b", "<{}>"])
def test_a_token_of_a_known_maker_is_hidden(token: str, frame: str) -> None:
    assert PLAIN.redact_text(frame.format(token)) == frame.format("***")


def test_a_url_of_a_slack_hook_is_hidden() -> None:
    path = "services/T00000000/B00000000/" + ALNUM[:24]
    assert PLAIN.redact_text(f"post to https://hooks.slack.com/{path} now") == (
        "post to https://hooks.slack.com/*** now"
    )


LINES = ["MIIEowIBAAKCAQEA7bq2abcdEFGH", "QyNTUxOQAAACB7abcdEFGHijkl", "abc1=="]


def _pem(kind: str = "RSA ", end: str = "\n") -> str:
    return end.join([f"-----BEGIN {kind}PRIVATE KEY-----", *LINES, f"-----END {kind}PRIVATE KEY-----"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_pem(), "***"),
        (f"key:\n{_pem('OPENSSH ')}\ndone", "key:\n***\ndone"),
        (f'{{"k": "{_pem("", chr(92) + "n")}", "n": 1}}', '{"k": "***", "n": 1}'),
        (_pem().rsplit("\n", 1)[0], "***"),
        (_pem().rsplit("\n", 2)[0] + "\n… more", "***\n… more"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB12\n\n"
            + "\n".join(LINES),
            "***",
        ),
        (
            "It begins with -----BEGIN PRIVATE KEY-----, says the manual.",
            "It begins with -----BEGIN PRIVATE KEY-----, says the manual.",
        ),
    ],
    ids=["whole", "openssh", "json", "without end", "cut off", "encrypted", "named only"],
)
def test_a_private_key_is_hidden(text: str, expected: str) -> None:
    assert PLAIN.redact_text(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=hunter2", "password=***"),
        ("PASSWORD: hunter2!, next", "PASSWORD: ***!, next"),
        ('{"api_key": "abc123def"}', '{"api_key": "***"}'),
        ("{'apiKey': 'abc123def'}", "{'apiKey': '***'}"),
        ('{\\"api_key\\": \\"abc123def\\"}', '{\\"api_key\\": \\"***\\"}'),
        ("{'password': b'abc123def'}", "{'password': b'***'}"),
        ("OPENAI_API_KEY=abc123def python x.py", "OPENAI_API_KEY=*** python x.py"),
        ("client_secret => 9f8e7d6c5b4a", "client_secret => ***"),
        ("https://h/x?access_token=abc123def&y=1", "https://h/x?access_token=***&y=1"),
        ("Authorization: Bearer abc123def456", "Authorization: Bearer ***"),
        ("-H 'Authorization: token abc123def456'", "-H 'Authorization: token ***'"),
        ("sent Bearer abc123def456ghi789", "sent Bearer ***"),
        ("authorization: Basic dXNlcjpwYXNzd29yZDE=", "authorization: Basic ***"),
        ("X-Api-Key: abc123def", "X-Api-Key: ***"),
        ("run --token abc123DEF456ghi789XYZ --n 3", "run --token *** --n 3"),
        ("run --db-password hunter2", "run --db-password ***"),
        ("postgres://me:hunter2@host/db", "postgres://me:***@host/db"),
        (
            "clone https://0123456789abcdef0123456789abcdef01234567@github.com/o/r",
            "clone https://***@github.com/o/r",
        ),
        (f"https://{ALNUM}:x-oauth-basic@github.com", "https://***:***@github.com"),
        (f"https://{ALNUM}:@host", "https://***:@host"),
        (f"HTTPS://{ALNUM}@host", "HTTPS://***@host"),
        ("token: Zm9vYmFyMTIzNDU2Nzg5MGFiY0RFRg", "token: ***"),
        ("AccountKey=abc+123/def==;Suffix=x", "AccountKey=***;Suffix=x"),
        ("<password>hunter2</password>", "<password>***</password>"),
        ("<dbPassword>hunter2</dbPassword>", "<dbPassword>***</dbPassword>"),
        ('<add key="ApiKey" value="abc123def"/>', '<add key="ApiKey" value="***"/>'),
        ('{"name": "password", "value": "hunter2"}', '{"name": "password", "value": "***"}'),
        ("client_secret%3Dabc123def456", "client_secret%3D***"),
        ("password\\u003dhunter2", "password\\u003d***"),
        ("https://x.blob/c?sv=1&sig=" + ALNUM + "%3D&se=2", "https://x.blob/c?sv=1&sig=***&se=2"),
        ("curl -u me:hunter2 https://x", "curl -u me:*** https://x"),
        ("curl --user 'me:hunter2'", "curl --user 'me:***'"),
        ("authorization: pa-2024-x17", "authorization: ***"),
        ("password: PA-2024-00117", "password: ***"),
        ("password: oauth2-x9", "password: ***"),
        ("password: 2026-11-28Tx", "password: ***"),
        ("secret_key: a1B2c3D4e5F6g7H8.pdfx", "secret_key: ***"),
        ("page_token: a1B2c3D4e5F6g7H8i9J0k1L2", "page_token: ***"),
    ],
)
def test_a_random_string_beside_a_word_that_tells_is_hidden(text: str, expected: str) -> None:
    assert PLAIN.redact_text(text) == expected


SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "key",
        "The secret of good tokens is a key: auth first.",
        "password: required",
        "secret: my-secret-name",
        "password=$PASSWORD",
        "api_key: ${{ secrets.API_KEY }}",
        "token=os.environ['TOKEN']",
        "secret_file: /run/secrets/db1",
        "token_uri: https://oauth2.example.com/token1",
        '{"input_tokens": 1234567890, "max_tokens": 4096, "total_tokens": 123456789012}',
        f"sha256:{SHA256}",
        f"key: {SHA256}",
        f"cache_key={SHA256}",
        "token: 123e4567-e89b-12d3-a456-426614174000",
        "commit 2b0b822cd15d6c15b0f00a089f86d081884c7d65",
        "call_Ab3dEf6hIj9kLmN0pQrStUvW",
        "chatcmpl-9XyZ0AbCdEfGhIjKlMnOpQrStUvW",
        '{"id": "toolu_01A09q90qw90lq917835lq9", "idempotency": "k1"}',
        "author: Somebody Who Writes 12 Lines",
        "risk-assessment-of-a-very-long-name-2026-11-21",
        "monkey=banana2000 turkey=dinner2026",
        "sk-learn is a library; ask-me-anything-about-it-2026",
        "eyJ is how JSON starts in base64",
        "npm_config_registry and hf_hub_download and xoxo",
        "https://example.com:8080/a@b",
        "https://my-organisation-of-many-words-2@dev.azure.com/o/r",
        "https://example.com/0123456789abcdef0123456789abcdef01234567@main",
        "::error file=a.json,line=3::score 0.5 < 0.8",
        "arn:aws:secretsmanager:us-east-1:123456789012:name",
        "password_changed_at: 2026-11-28T10:00:00.000Z and api_key_expires=2026-11-28",
        "access_token: PT3600S, bearer token: 3600seconds",
        "auth: OAuth2.0, auth=saml2 auth: AWS4-HMAC-SHA256",
        "private_key: rsa-4096, signing_key: RS256",
        "prior authorization: PA-2024-00117",
        "object_key: Invoices2024/NovemberFinalA17.pdf",
        "pwd: C:\\Users\\me2",
        "password_strength: level3 password_policy: min12chars password_attempts: 3of5ab",
        "nextPageToken: a1B2c3D4e5F6g7H8i9J0k1L2",
        "secretary=alice.smith2 passwordless=webauthn-2b",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert PLAIN.redact_text(text) is text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("say canary-value-1", "say ***"),
        ("canary-value-1canary-value-1", "***"),
        ("canary-value-1 canary-value-1", "*** ***"),
        ("a canary-value-12 b", "a ***2 b"),
        ("canary-value", "canary-value"),
    ],
)
def test_a_value_of_the_environment_is_hidden(text: str, expected: str) -> None:
    assert Redactor.from_environment({"SOME_TOKEN": "canary-value-1"}).redact_text(text) == expected


def test_secrets_that_overlap_leave_nothing_of_either() -> None:
    redactor = Redactor.from_environment({"A_TOKEN": "abcdefgh1", "B_TOKEN": "gh1jklmn2"})
    assert redactor.redact_text("<abcdefgh1jklmn2>") == "<***>"


def test_a_replacement_that_completes_a_secret_is_not_the_end() -> None:
    assert Redactor.from_environment({}, ["inner-1", "a***b"]).redact_text("ainner-1b") == "***"


@pytest.mark.parametrize("mask", ["ab1!", "a word", "  padded-mask \n"])
def test_a_mask_is_hidden_whatever_it_is(mask: str) -> None:
    assert Redactor.from_environment({}, [mask]).redact_text(f"x {mask.strip()} y") == "x *** y"


@pytest.mark.parametrize("mask", ["", "  ", "abc"])
def test_a_mask_that_would_blank_the_report_is_refused_without_telling_it(mask: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        Redactor.from_environment({}, ["long-enough", mask])
    assert str(raised.value) == (
        "mask 2 is shorter than 4 characters: to hide it would blank half of every report; "
        "give the whole secret"
    )


@pytest.mark.parametrize(
    ("announcement", "text", "expected"),
    [
        ("::add-mask::fetched-secret-9", "x fetched-secret-9", "x ***"),
        ("log\n  ::ADD-MASK::fetched-secret-9\r\nmore", "x fetched-secret-9", "x ***"),
        ("mid ##[add-mask]fetched-secret-9", "x fetched-secret-9", "x ***"),
        ("::add-mask::100%25-secret%0A-2", "x 100%-secret\n-2", "x ***"),
        ("::add-mask::passed", "3 passed", "3 passed"),
        ("::add-mask::e", "the rest", "the rest"),
        ("say ::add-mask::fetched-secret-9", "x fetched-secret-9", "x fetched-secret-9"),
        ("nothing", "nothing", "nothing"),
    ],
)
def test_a_mask_that_a_program_announces_is_hidden(announcement: str, text: str, expected: str) -> None:
    assert PLAIN.add_masks_from_texts("first", announcement).redact_text(text) == expected


def test_the_lines_of_a_secret_are_hidden_one_by_one() -> None:
    redactor = Redactor.from_environment({"DEPLOY_KEY": "first-line-1\nsecond-line-2\n}"})
    assert redactor.redact_text("got second-line-2, first-line-1 }") == "got ***, *** }"


def test_it_does_not_tell_what_it_knows() -> None:
    assert "canary" not in repr(Redactor.from_environment({"A_TOKEN": "canary-value-1"}, ["canary-mask"]))


def test_a_flood_of_announcements_is_dammed() -> None:
    flood = "\n".join(f"::add-mask::announced-{number}" for number in range(10_000))
    assert len(PLAIN.add_masks_from_texts(flood).needles) < 2_000


@pytest.mark.parametrize(
    ("mask", "notice"),
    [
        ("The change brought its own", "The change brought its own: evals/a.evalset.json."),
        # The start of a mask is hidden as well where a text was cut.
        ("The change brought its own: evals/s zzzzzzzzzz", "The change brought its own: evals/s...evalset.json."),
    ],
)  # fmt: skip
def test_no_announced_mask_hides_a_part_of_a_kept_text(mask: str, notice: str) -> None:
    redactor = PLAIN.add_masks_from_texts(f"::add-mask::{mask}", kept=notice)
    assert redactor.redact_text(notice) == notice
    assert PLAIN.add_masks_from_texts(f"::add-mask::{mask}").redact_text(notice) != notice
