"""The message about a request that fails shows no more of the address than its host."""

import pytest

from evalgate.system.http_post import HttpPostError, HttpTarget, post_json


@pytest.mark.parametrize("path", ["/T0/s3cret word", "/T0/s3cret\tword", "/T0/s3cret\u00e9"])
def test_an_address_that_cannot_be_sent_is_not_quoted(path: str) -> None:
    with pytest.raises(HttpPostError, match=r"^the address or a header cannot be sent") as raised:
        post_json(HttpTarget(f"http://127.0.0.1:9{path}", {}), {})
    assert "s3cret" not in str(raised.value)
