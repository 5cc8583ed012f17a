"""A format: `{"pairs": [{"q": …, "a": …}]}`, one case a pair."""

from evalgate.core.errors import InvalidInput, Problem
from evalgate.core.types import EvalCase, EvalSet, Reply, Turn, UserMessage
from evalgate.core.protocols import Document


class QaPairs:
    def recognises(self, document: Document) -> bool:
        return isinstance(document.value, dict) and "pairs" in document.value

    def read(self, document: Document) -> EvalSet:
        pairs = document.value["pairs"]
        problems = [
            Problem(document.path, *document.position(("pairs", index)), "a pair has `q` and `a`")
            for index, pair in enumerate(pairs)
            if not {"q", "a"} <= pair.keys()
        ]
        if problems:
            raise InvalidInput(problems)
        cases = tuple(
            EvalCase(
                eval_id=f"pair_{index + 1}",
                turns=(Turn(UserMessage(pair["q"]), Reply(pair["a"])),),
                line=document.position(("pairs", index))[0],
            )
            for index, pair in enumerate(pairs)
        )
        return EvalSet(document.path, cases, document.path)
