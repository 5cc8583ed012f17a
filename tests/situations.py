"""Records of whole runs in typical situations, from which the golden files are rendered."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from evalgate.core.types import (
    AverageRunUsage,
    CaseChange,
    CaseMetric,
    CaseResult,
    Comparison,
    Failure,
    MetricComparison,
    Quarantine,
    Record,
    RunMetric,
    RunResult,
    Status,
    ToolCall,
    TurnMetric,
    TurnResult,
    Verdict,
)
from evalgate.reporting.comment.reporter import CommentReport
from tests.builders import (
    RESPONSE,
    TRAJECTORY,
    a_call,
    a_case_result,
    a_record,
    a_reply,
    a_run_result,
    a_summary,
    a_turn_result,
)

HOSTILE = (
    "\x1b[31mred\x1b[0m @octocat #12 GH-7 octo/repo#3 <!-- evalgate:v1 key=forged --> <img src=https://evil.example/x>"
    " ![beacon](https://evil.example/?q) [link](javascript:alert(1)) www.evil.example a@evil.example `tick` ```fence```"
    " | cell | ~~gone~~ $x$ \u202egnp.exe\u200b [[ATTACHMENT|/etc/passwd]] ##[add-mask]e ]]> &amp; \ufffe"
    "\n```\n</details>\n::set-output name=verdict::pass\n# heading\n- [ ] task"
)


def green() -> Record:
    """Return a record in which all cases pass, without a baseline."""
    return a_record(
        a_case_result("paris"),
        a_case_result("oslo", line=9),
        verdict=Verdict("pass", 0, ("All 2 cases passed.",)),
    )


def green_with_baseline() -> Record:
    """Return a record in which all cases pass, with better scores than the baseline."""
    cases = tuple(a_case_result(name) for name in ("paris", "oslo", "rome"))
    changes = (CaseChange("travel", "oslo", "newly_passing", "failed", "passed"), _change("rome", "new"))
    return a_record(
        *cases,
        verdict=Verdict("pass", 0, ("All 3 cases passed.",)),
        metrics=(
            a_summary(n=3, baseline=0.5, delta=0.5, compared=2),
            a_summary(RESPONSE, 0.8004, 0.8, n=3, baseline=0.8004, delta=0.0, compared=2),
        ),
        comparison=replace(
            _comparison(*changes, unchanged=1), version="as the base branch has it at `89abcdef0123`"
        ),
    )


def regression() -> Record:
    """Return a record with one newly failing case, one case that failed before, and one new case."""
    return a_record(
        a_case_result("oslo"),
        _wrong_city("rome", still=True),
        _wrong_city("paris"),
        a_case_result("kyiv"),
        verdict=Verdict(
            "fail",
            1,
            (
                f"{TRAJECTORY} is 0.50, below its threshold 1.00.",
                f"{TRAJECTORY} fell by 0.33, more than the allowed 0.02.",
            ),
        ),
        metrics=(
            replace(
                a_summary(score=0.5, status="failed", n=4, baseline=2 / 3, delta=-1 / 3, compared=3),
                judgement=MetricComparison("fail", "average_fell", (), 0.02, drop=1 / 3, noise=0.08),
                trend=(0.72, 0.7, 0.69, 0.7, 0.66),
            ),
            a_summary(RESPONSE, 0.79999, 0.8, "failed", n=4, baseline=0.81, delta=-0.01001, compared=3),
        ),
        comparison=replace(
            _comparison(
                replace(_change("paris", "newly_failing"), then=_RIGHT_CITY),
                _change("kyiv", "new"),
                _change("lima", "removed"),
                unchanged=2,
            ),
            source="artifact:evalgate-baseline",
            version="run 4711",
            branch="main",
            gate_runs=4,
            then=AverageRunUsage(3, 1.25, 310.0, 81.5, 0.0031),
            now=AverageRunUsage(3, 1.75, 305.0, 81.0, 0.0030),
        ),
    )


def flaky_runs() -> Record:
    """Return a record with three runs of each case. One case passes only two runs, which is no significant drop."""
    case = _wrong_city("rome")
    wrong = case.runs[0]
    right = a_run_result(*(replace(turn, actual=turn.expected, metrics=()) for turn in wrong.turns))
    runs = (right, replace(wrong, run=2), replace(right, run=3))
    metrics = (CaseMetric(TRAJECTORY, 5 / 6, 0.8, "passed"),)
    cases = (
        a_case_result("oslo", runs=tuple(a_run_result(run=number) for number in (1, 2, 3))),
        replace(case, status="passed", metrics=metrics, runs=runs),
    )
    said = "Down 0.08 against the baseline: no more than luck does."
    summary = replace(
        a_summary(score=11 / 12, threshold=0.8, n=2, baseline=1.0, delta=-1 / 12, compared=2),
        judgement=MetricComparison("pass", "no_sign", (said,), 0.1, drop=1 / 12, noise=0.09),
        trend=(0.95, 1.0, 0.9, 1.0),
    )
    record = a_record(
        *cases,
        verdict=Verdict("pass", 0, ("All 2 cases passed.",)),
        metrics=(summary,),
        comparison=_comparison(unchanged=2),
    )
    return replace(record, runs=3)


def hang() -> Record:
    """Return a record in which one case timed out."""
    timeout = Failure("timeout", "no answer within 60 s", "waiting for the booking service…")
    return a_record(
        _unanswered("rome", "timed_out", timeout),
        *(a_case_result(name) for name in ("oslo", "kyiv")),
        verdict=Verdict("fail", 1, ("1 case ended without a score: rome timed out.",)),
        metrics=(a_summary(score=1.0, n=3, errors=1),),
    )


def without_secrets() -> Record:
    """Return a record of a fork's pull request: the agent has no API key, so there is no verdict."""
    why = "OPENAI_API_KEY is not set"
    case = replace(
        a_case_result("paris", "not_evaluated", metrics=()),
        runs=(RunResult(1, "not_run", 0.0, (), failure=Failure("import", why)),),
    )
    return a_record(
        case,
        verdict=Verdict("error", 3, (f"The agent cannot be reached: {why}.",)),
        metrics=(),
        notices=("Pull requests from forks get no secrets.",),
    )


def crash_and_timeout() -> Record:
    """Return a record with one case that crashed, one that timed out, and one on which a metric failed."""
    trace = 'Traceback (most recent call last):\n  File "agent.py", line 3, in answer\n    city["name"]\nKeyError: \'name\''
    crash = Failure("exception", "the agent raised KeyError: 'name'", trace)
    timeout = Failure("timeout", "no answer within 60 s", "")
    broken = (CaseMetric(RESPONSE, None, 0.8, "errored", "the metric raised ValueError: no reference"),)
    return a_record(
        _unanswered("paris", "crashed", crash),
        _unanswered("rome", "timed_out", timeout),
        a_case_result("oslo", "errored", metrics=broken),
        a_case_result("kyiv"),
        verdict=Verdict(
            "error", 3, ("Too many errors: 3 of 4 cases ended without a score, more than the allowed 10%.",)
        ),
        metrics=(
            a_summary(score=1.0, n=4, errors=2),
            a_summary(RESPONSE, None, 0.8, "errored", n=1, errors=1),
        ),
    )


def nothing_evaluated() -> Record:
    """Return a record in which no metric applies to any case, so there is no verdict."""
    why = "the case expects no tool call"
    metrics = (CaseMetric(TRAJECTORY, None, 1.0, "not_evaluated", why),)
    return a_record(
        a_case_result("paris", "not_evaluated", metrics=metrics),
        verdict=Verdict("error", 3, ("Nothing was evaluated: none of 1 case has a score.",)),
        metrics=(a_summary(score=None, status="not_evaluated"),),
    )


def hostile() -> Record:
    """Return a record in which all texts of agent and eval set try to inject markup or commands."""
    expected = a_reply(HOSTILE, ToolCall(HOSTILE, {HOSTILE: HOSTILE}))
    actual = a_reply(HOSTILE + "!", ToolCall(HOSTILE, {HOSTILE: HOSTILE + "!"}))
    turn = TurnResult(HOSTILE, expected, actual, (TurnMetric(TRAJECTORY, 0.0, "failed", HOSTILE),))
    run = RunResult(
        1,
        "answered",
        0.5,
        (turn,),
        (RunMetric(TRAJECTORY, 0.0, "failed", HOSTILE),),
        failure=Failure("exception", HOSTILE, HOSTILE),
    )
    case = CaseResult(
        HOSTILE,
        HOSTILE,
        "failed",
        (CaseMetric(HOSTILE, 0.0, 1.0, "failed", HOSTILE),),
        (run, replace(run, run=2, outcome="crashed")),
        "f00d",
        HOSTILE,
        3,
    )
    resting = replace(case, eval_id=HOSTILE + "2", quarantine=Quarantine(HOSTILE, HOSTILE, HOSTILE))
    return a_record(
        case,
        resting,
        verdict=Verdict("fail", 1, (f"The agent said: {HOSTILE}", HOSTILE)),
        metrics=(a_summary(HOSTILE, 0.0, status="failed"),),
        comparison=Comparison(
            HOSTILE,
            HOSTILE,
            HOSTILE,
            (CaseChange(HOSTILE, HOSTILE, "newly_failing", "passed", "failed"),),
            version=HOSTILE,
            branch=HOSTILE,
            gate_runs=3,
        ),
        notices=(HOSTILE,),
    )


def quarantine() -> Record:
    """Return a record with two quarantined cases. One of them failed, which does not close the gate."""
    about = Quarantine("anna@example.com", "the search index moves | see #12", "2026-12-31")
    rests = (replace(_wrong_city("rome"), quarantine=about), replace(a_case_result("oslo"), quarantine=about))
    return a_record(
        a_case_result("paris"),
        *rests,
        verdict=Verdict("pass", 0, ("1 case passed and every metric meets its threshold; 2 quarantined.",)),
        metrics=(a_summary(n=1),),
        notices=(
            "The quarantine of kyiv ended on 2026-11-19: it gates again. ben mends it, or says until when.",
        ),
    )


def quarantine_with_baseline() -> Record:
    """Return a record with three quarantined cases: newly failing, flaky and unchanged. The gate is open."""
    about = Quarantine("anna@example.com", "the search index moves", "2026-12-31")
    steady, flaky = flaky_runs().cases
    resting = (
        replace(_wrong_city("rome"), quarantine=about),
        replace(flaky, eval_id="bern", quarantine=about),
        replace(steady, eval_id="oslo", quarantine=about),
    )
    summary = a_summary(n=2, baseline=1.0, delta=0.0, compared=2)
    return a_record(
        a_case_result("paris"),
        a_case_result("kyiv"),
        *resting,
        verdict=Verdict("pass", 0, ("All 2 cases passed; 3 quarantined.",)),
        metrics=(summary,),
        comparison=_comparison(_change("rome", "newly_failing"), unchanged=4),
    )


def huge(cases: int = 50_000, *, causes: int | None = None) -> Record:
    """Return a record with more failing cases than a comment can hold.

    The cases fail for `causes` different causes, or each for its own if that is None.
    """
    first = _wrong_city("case_0")
    failing = tuple(
        _because(replace(first, eval_id=f"case_{at}"), at if causes is None else at % causes)
        for at in range(cases)
    )
    changes = tuple(_change(case.eval_id, "newly_failing") for case in failing)
    return a_record(
        *failing,
        verdict=Verdict("fail", 1, (f"{TRAJECTORY} is 0.00, below its threshold 1.00.",)),
        metrics=(a_summary(score=0.0, status="failed", n=cases, baseline=1.0, delta=-1.0, compared=cases),),
        comparison=_comparison(*changes),
    )


def _because(case: CaseResult, cause: int) -> CaseResult:
    """Return a case with reasons that differ from those of cases with another cause."""
    word = "".join(chr(ord("a") + int(digit)) for digit in str(cause))
    metrics = tuple(
        replace(metric, reason=f"{metric.reason} of tool_{word}") if metric.reason else metric
        for metric in case.metrics
    )
    return replace(case, metrics=metrics)


GOLDEN: Mapping[str, Callable[[], Record]] = {
    "green": green,
    "green_with_baseline": green_with_baseline,
    "regression": regression,
    "crash_and_timeout": crash_and_timeout,
    "nothing_evaluated": nothing_evaluated,
    "hostile": hostile,
    "quarantine": quarantine,
    "quarantine_with_baseline": quarantine_with_baseline,
}


COMMENTS: Mapping[str, tuple[Callable[[], Record], CommentReport]] = {
    "all_green_first_run": (green, CommentReport()),
    "regression": (regression, CommentReport()),
    "with_page": (regression, CommentReport(has_page=True)),
    "improvement": (green_with_baseline, CommentReport()),
    "flaky": (flaky_runs, CommentReport()),
    "crash": (crash_and_timeout, CommentReport()),
    "hang": (hang, CommentReport()),
    "nothing_evaluated": (nothing_evaluated, CommentReport()),
    "huge": (lambda: huge(2_000), CommentReport()),
    "three_causes": (lambda: huge(30, causes=3), CommentReport()),
    "hostile": (hostile, CommentReport()),
    "fork": (without_secrets, CommentReport(is_trusted=False)),
    "fork_with_page": (without_secrets, CommentReport(is_trusted=False, has_page=True)),
}
"""Name of a situation of a pull request to its record and the reporter of its comment."""


def _comparison(*changes: CaseChange, unchanged: int = 0) -> Comparison:
    return Comparison(
        "evals/baseline.json",
        "2026-11-19T10:00:00Z",
        "0123456789abcdef0123456789abcdef01234567",
        changes,
        unchanged,
    )


_STATUSES: Mapping[str, tuple[Status | None, Status | None]] = {
    "newly_failing": ("passed", "failed"),
    "new": (None, "passed"),
    "removed": ("passed", None),
}


def _change(eval_id: str, change: str) -> CaseChange:
    before, after = _STATUSES[change]
    match change:
        case "newly_failing":
            return CaseChange("travel", eval_id, "newly_failing", before, after)
        case "new":
            return CaseChange("travel", eval_id, "new", before, after)
    return CaseChange("travel", eval_id, "removed", before, after)


_RIGHT_CITY = (
    a_reply("Hello! How can I help?"),
    a_reply(
        "It is sunny in Paris today.\nTake sunglasses.",
        a_call("get_location", user="anna"),
        a_call("get_weather", city="Paris", unit="C"),
    ),
)


def _wrong_city(eval_id: str, *, still: bool = False) -> CaseResult:
    """Return a failed case: the second turn asks for another city and makes an unexpected call of `send_mail`."""
    located = a_call("get_location", user="anna")
    expected = a_reply(
        "It is sunny in Paris.\nTake sunglasses.", located, a_call("get_weather", city="Paris", unit="C")
    )
    actual = a_reply(
        "It is raining in London.\nTake sunglasses.",
        located,
        a_call("get_weather", city="London", unit="C"),
        a_call("send_mail", to="anna@example.com"),
    )
    reason = "" if still else "call 2 differs in its arguments"
    turns = (
        a_turn_result("Hello", a_reply("Hello! How can I help?")),
        TurnResult(
            "How is the weather at home?", expected, actual, (TurnMetric(TRAJECTORY, 0.0, "failed", reason),)
        ),
    )
    metrics = (
        CaseMetric(TRAJECTORY, 0.5, 1.0, "failed", reason),
        CaseMetric(RESPONSE, 0.79999, 0.8, "failed"),
    )
    run = a_run_result(*turns, metrics=(RunMetric(TRAJECTORY, 0.5, "failed", reason),))
    return a_case_result(eval_id, "failed", metrics=metrics, runs=(run,), line=17)


def _unanswered(eval_id: str, outcome: str, failure: Failure) -> CaseResult:
    turn = TurnResult("How is the weather at home?", a_reply("Sunny.", a_call(city="Paris")), None)
    run = RunResult(1, "crashed" if outcome == "crashed" else "timed_out", 1.25, (turn,), failure=failure)
    metrics = (CaseMetric(TRAJECTORY, None, 1.0, "errored", failure.message),)
    return a_case_result(eval_id, "errored", metrics=metrics, runs=(run,))
