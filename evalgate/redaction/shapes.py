"""What tokens and keys of well-known makers look like, wherever they stand, also in base64 and in URLs."""

import re
from collections.abc import Iterator

from evalgate.redaction.encoded import SHORTEST_ENCODED, decode_parts
from evalgate.redaction.span import Span

_AFTER = r"(?<![A-Za-z0-9])"
_SLASH = r"\\{0,4}/"
_SENTRY = r"[0-9a-f]{32}(?::[0-9a-f]{32})?(?=@[A-Za-z0-9.\-]{1,253}(?::\d{1,5})?[\\/])"
_PRIVATE_KEY = "PRIVATE KEY"
"""The only sign with a blank in it."""
_SHAPES = {
    # A text that occurs in every such token, and the whole token; if it has a group, that is the token. The
    # first is looked for before the second.
    "gh": rf"{_AFTER}gh[pousr]_[A-Za-z0-9]{{20,255}}",  # GitHub
    "github_pat_": r"github_pat_[A-Za-z0-9_]{20,255}",
    # GitLab: personal, of jobs, runners, triggers, deployments, …; the newer ones with a part of its own
    "gl": rf"{_AFTER}gl(?:pat|cbt|rt|ptt|dt|ft|soat|agent|imt|oas|ffct|wt)-[A-Za-z0-9_\-]{{20,255}}"
    r"(?:\.[0-9a-z]{2}\.[0-9a-z]{7,9})?",
    "sk-": rf"{_AFTER}sk-(?=[A-Za-z_\-]{{0,60}}\d)[A-Za-z0-9_\-]{{20,255}}",  # OpenAI, Anthropic, OpenRouter
    "sk_": rf"{_AFTER}[sr]k_(?:live|test)_[A-Za-z0-9]{{16,255}}",  # Stripe
    "rk_": rf"{_AFTER}rk_(?:live|test)_[A-Za-z0-9]{{16,255}}",
    "whsec_": r"whsec_[A-Za-z0-9+/=]{20,255}",
    "AKIA": rf"{_AFTER}AKIA[0-9A-Z]{{16}}(?![0-9A-Za-z])",  # AWS
    "ASIA": rf"{_AFTER}ASIA[0-9A-Z]{{16}}(?![0-9A-Za-z])",
    "xox": r"xox[abcdeoprs](?:\.[a-z]+)?-[A-Za-z0-9\-]{10,255}",  # Slack
    "xapp-": r"xapp-\d-[A-Za-z0-9\-]{10,255}",
    "hooks.slack.com/": r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[A-Za-z0-9_/\-]{20,255}",
    # the path of such a hook without its host, and as JSON may escape it
    "/T": rf"(?:services|workflows|triggers){_SLASH}T[A-Z0-9]{{6,14}}{_SLASH}[A-Z0-9]{{6,24}}"
    rf"(?:{_SLASH}\d{{10,24}})?{_SLASH}[A-Za-z0-9]{{16,64}}",
    "webhooks": rf"webhooks{_SLASH}\d{{16,21}}{_SLASH}[A-Za-z0-9_\-]{{50,100}}",  # Discord
    "AIza": rf"{_AFTER}AIza[0-9A-Za-z_\-]{{30,60}}",  # Google
    "ya29.": rf"{_AFTER}ya29\.[0-9A-Za-z_\-]{{20,2048}}",
    "GOCSPX-": r"GOCSPX-[0-9A-Za-z_\-]{20,60}",
    # a JSON Web Token: header, claims, signature
    "eyJ": rf"{_AFTER}eyJ[A-Za-z0-9_\-]{{8,4096}}\.[A-Za-z0-9_\-]{{8,8192}}(?:\.[A-Za-z0-9_\-]{{0,4096}})?",
    "npm_": rf"{_AFTER}npm_[A-Za-z0-9]{{30,60}}",
    "pypi-": r"pypi-AgE[A-Za-z0-9_\-]{20,1024}",
    "hf_": rf"{_AFTER}hf_[A-Za-z0-9]{{20,60}}",  # Hugging Face
    "gsk_": rf"{_AFTER}gsk_[A-Za-z0-9]{{30,80}}",  # Groq
    "xai-": rf"{_AFTER}xai-[A-Za-z0-9]{{40,120}}",
    "nvapi-": r"nvapi-[A-Za-z0-9_\-]{40,120}",
    "r8_": rf"{_AFTER}r8_[A-Za-z0-9]{{30,60}}",  # Replicate
    "pplx-": rf"{_AFTER}pplx-[A-Za-z0-9]{{30,60}}",
    "tvly-": rf"{_AFTER}tvly-[A-Za-z0-9\-]{{20,60}}",
    "lsv2_": rf"{_AFTER}lsv2_[a-z]{{2}}_[A-Za-z0-9_]{{30,80}}",  # LangSmith
    "dapi": rf"{_AFTER}dapi[0-9a-f]{{32}}",  # Databricks
    "SG.": rf"{_AFTER}SG\.[A-Za-z0-9_\-]{{16,64}}\.[A-Za-z0-9_\-]{{16,64}}",  # SendGrid
    "shp": rf"{_AFTER}shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{{32}}",  # Shopify
    "dop_v1_": r"dop_v1_[a-f0-9]{64}",  # DigitalOcean
    "ATATT3": rf"{_AFTER}ATATT3[A-Za-z0-9_=\-]{{30,255}}",  # Atlassian, Bitbucket
    "ATCTT3": rf"{_AFTER}ATCTT3[A-Za-z0-9_=\-]{{30,255}}",
    "ATBB": rf"{_AFTER}ATBB[A-Za-z0-9]{{24,64}}",
    "bkua_": rf"{_AFTER}bkua_[A-Za-z0-9]{{30,60}}",  # Buildkite
    "dckr_": r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{20,60}",  # Docker
    "hvs.": rf"{_AFTER}hvs\.[A-Za-z0-9_\-]{{24,255}}",  # Vault
    "glsa_": r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}",  # Grafana
    "lin_api_": r"lin_api_[A-Za-z0-9]{32,60}",  # Linear
    "ntn_": rf"{_AFTER}ntn_[A-Za-z0-9]{{36,60}}",  # Notion
    "NRAK-": rf"{_AFTER}NRAK-[A-Z0-9]{{27}}",  # New Relic
    "pcsk_": rf"{_AFTER}pcsk_[A-Za-z0-9_]{{30,90}}",  # Pinecone
    "sbp_": rf"{_AFTER}sbp_[a-f0-9]{{40}}",  # Supabase
    "sntry": r"sntry[su]_[A-Za-z0-9+/=_\-]{40,512}",  # Sentry
    # the address of a Sentry project, which holds its key
    "://": rf"(?<=://){_SENTRY}",
    ":\\/\\/": rf"(?<=:\\/\\/){_SENTRY}",
    # what names the private key in the file of a Google service account; its key has the shape below
    "private_key_id": r"private_key_id[^\w\n]{1,16}([0-9a-f]{40})(?![0-9A-Za-z])",
    "sq0": rf"{_AFTER}sq0(?:atp|csp)-[A-Za-z0-9_\-]{{22,60}}",  # Square
    ":AA": r"(?<!\d)\d{8,10}:AA[A-Za-z0-9_\-]{33}(?![A-Za-z0-9_\-])",  # Telegram
    "AGE-SECRET-KEY-": r"AGE-SECRET-KEY-1[0-9A-Z]{50,70}",
    _PRIVATE_KEY: (
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:\s|\\{1,4}[nrt])*+(?:Proc-Type|DEK-Info|Version|Comment): ?[^\n\\]{0,80})*+"
        r"(?:(?:\s|\\{1,4}[nrt]|[\"'+,])*+[A-Za-z0-9+/]{16,}+={0,2})++"
        r"(?:(?:\s|\\{1,4}[nrt]|[\"'+,=])*+(?!-)[A-Za-z0-9+/]{1,64}={0,2}(?![A-Za-z0-9+/]))?"
        r"(?:(?:\s|\\{1,4}[nrt]|[\"'+,])*+-----END [A-Z0-9 ]{1,40}-----)?"
    ),
}
_MOST_LAYERS = 2
_SHORTEST = 15
"""No token has fewer characters, nor has a key without a word of as many."""


def shaped_like_secrets(text: str, layers: int = _MOST_LAYERS) -> Iterator[Span]:
    """Yield where tokens and keys with a well-known look stand in `text`, in time linear in its length.

    They may be encoded `layers` times, in base64 or as in a URL.
    """
    # Prose has hardly a word that is long enough; they are looked for once instead of once for each sign.
    each = text.split()
    longest = max(map(len, each), default=0)
    if longest < _SHORTEST:
        return
    if layers and longest >= SHORTEST_ENCODED:
        for part in decode_parts(text):
            yield from map(part.locate, shaped_like_secrets(part.text, layers - 1))
    words = " ".join([word for word in each if len(word) >= _SHORTEST])
    for sign, shape in _SHAPES.items():
        if sign in (text if sign is _PRIVATE_KEY else words):
            for match in re.finditer(shape, text):  # compiled when the first such sign is met
                yield match.span(match.re.groups)
