"""A format: `{"pairs": [{"q": …, "a": …}]}`, one case a pair."""

from evalgate.plugins import (
    CaseTurn,
    Document,
    EvalCase,
    EvalSet,
    InvalidInputError,
    Problem,
    Reply,
    UserMessage,
)


class QaPairs:
    def matches_document(self, document: Document) -> bool:
        return isinstance(document.value, dict) and "pairs" in document.value

    def read_eval_set(self, document: Document) -> EvalSet:
        pairs = document.value["pairs"]
        problems = [
            Problem(document.path, *document.find_position(("pairs", index)), "a pair has `q` and `a`")
            for index, pair in enumerate(pairs)
            if not {"q", "a"} <= pair.keys()
        ]
        if problems:
            raise InvalidInputError(problems)
        cases = tuple(
            EvalCase(
                eval_id=f"pair_{index + 1}",
                turns=(CaseTurn(UserMessage(pair["q"]), Reply(pair["a"])),),
                line=document.find_position(("pairs", index))[0],
            )
            for index, pair in enumerate(pairs)
        )
        return EvalSet(document.path, cases, document.path)
