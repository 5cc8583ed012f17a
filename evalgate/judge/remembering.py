"""Asking only what was not answered before."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from weakref import WeakValueDictionary

from pydantic import TypeAdapter, ValidationError

from evalgate.budget import Spent
from evalgate.judge.asking import ModelAnswer, ModelClient, ModelRequest, parameters_of
from evalgate.judge.cache import AnswerFile
from evalgate.judge.tally import count_spared
from evalgate.prices import Tokens
from evalgate.redaction.hiding import Hiding

_FORM = 2
# 1: the first. 2: answers have a digest. Raise it when a request is sent, or an answer kept, differently.

_ANSWER = TypeAdapter(ModelAnswer)


class RememberingModel:
    """A model whose answers are kept: who asks the same at the same time waits for one."""

    def __init__(
        self,
        inner: ModelClient,
        file: AnswerFile,
        *,
        base_url: str,
        model: str,
        parameters: Mapping[str, object],
        hiding: Hiding,
        price: Callable[[ModelRequest, Tokens | None], Spent],
    ) -> None:
        self._inner = inner
        self._file = file
        self._base_url = base_url
        self._model = model
        self._parameters = parameters
        self._under_way: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._hiding = hiding
        self._price = price
        self.spared = Spent()
        """Calls that were not made, as they were paid for once."""
        self.withheld = 0
        """Answers that were not kept, for they hold a secret."""

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The kept answer, or the inner model's, which is kept then unless it holds a secret.

        Raises:
            JudgeFailed: there is none. Failures are not kept.
        """
        key = self.key_of(request)
        async with self._under_way.setdefault(key, asyncio.Lock()):
            kept = await asyncio.to_thread(self._file.get, key)
            answer = _read(kept) if kept is not None else None
            if answer is not None:
                spared = self._price(request, answer.tokens)
                self.spared += spared
                count_spared(spared)
                return answer
            answer = await self._inner.ask(request)
            if self._holds_secret(answer, request):
                self.withheld += 1
            else:
                await asyncio.to_thread(self._file.put, key, _ANSWER.dump_json(answer).decode())
            return answer

    def _holds_secret(self, answer: ModelAnswer, request: ModelRequest) -> bool:
        # Without its secret an answer may read otherwise, and the next run would score otherwise.
        said = f"{answer.model}\n{answer.text}"
        return self._hiding.text(said, *(message.text for message in request.messages)) != said

    def key_of(self, request: ModelRequest) -> str:
        """SHA-256, in hexadecimal digits, over all that the answer depends on."""
        whole = {
            "form": _FORM,
            "base_url": self._base_url,
            "model": request.model or self._model,
            "messages": [[message.role, message.text] for message in request.messages],
            "parameters": parameters_of(request, self._parameters),
            "answer_schema": asdict(request.answer_schema) if request.answer_schema else None,
            "prompt_version": request.prompt_version,
            "sample": request.sample,
            "attempt": request.attempt,
        }
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"), default=dict)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _read(kept: str) -> ModelAnswer | None:
    try:
        answer = _ANSWER.validate_json(kept)
    except ValidationError:
        return None
    return ModelAnswer(answer.text, answer.model, answer.tokens, answer.finish, answer.choices, cached=True)
