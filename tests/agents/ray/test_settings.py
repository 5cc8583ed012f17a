"""Options of the Ray executor, and the environment of a cluster."""

import json
from pathlib import Path

import pytest

from evalgate.agents.factory import build_agent
from evalgate.agents.ray.actor_host import ActorSpec
from evalgate.agents.ray.actor_pool import ClusterAgent, _build_cluster_spec, _build_ray_env
from evalgate.agents.workers.pool import WorkerPool
from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.schema.agent import LOCAL, ExecutorConfig
from evalgate.config.schema.thresholds import Config
from evalgate.core.errors import InvalidInputError
from evalgate.core.installation import describe_install
from evalgate.runner.checkpoint.plan_id import compute_plan_id
from evalgate.runner.plan import Plan, build_plan

ENVIRON = {
    "PATH": "/bin",
    "HOME": "/nowhere",
    "MODEL_KEY": "key-of-the-model",
    "DEPLOY_KEY": "not-for-the-agent",
    "API_TOKEN": "in-a-header",
    "RAY_AUTH_TOKEN": "of-the-cluster",
    "RAY_ADDRESS": "10.0.0.1:6379",
}


@pytest.fixture
def has_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalgate.agents.factory.find_spec", lambda name: name)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    case = {"eval_id": "c", "conversation": [{"user_content": {"parts": [{"text": "x"}]}}]}
    (tmp_path / "s.evalset.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": [case]}))
    return tmp_path


def plan_run(
    project: Path, *, executor: object = "ray", agent: object = None, overrides: Overrides | None = None
) -> Plan:
    config = {
        "eval_sets": "s.evalset.json",
        "executor": executor,
        "agent": agent or {"entry": "agent.py:answer", "env": ["MODEL_KEY"], "workers": 3},
        "criteria": {"response_match_score": 0.8},
    }
    (project / "evalgate.yaml").write_text(json.dumps(config, indent=1))
    return build_plan(overrides or Overrides(), thresholds_file=None, folder=project, environ=ENVIRON)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("ray", ExecutorConfig(kind="ray")),
        ("local", LOCAL),
        ({"kind": "ray", "cpus": 0.5}, ExecutorConfig(kind="ray", cpus=0.5)),
    ],
)
def test_executor_is_a_section_or_its_kind(section: object, expected: ExecutorConfig) -> None:
    assert Config.model_validate({"executor": section}).executor == expected


@pytest.mark.parametrize(
    ("section", "overrides", "expected"),
    [
        ("local", Overrides(executor="ray"), ExecutorConfig(kind="ray")),
        ("ray", Overrides(executor="local"), LOCAL),
        (
            {"kind": "ray", "cpus": 0.5, "address": "auto"},
            Overrides(ray_address="ray://head:10001"),
            ExecutorConfig(kind="ray", cpus=0.5, address="ray://head:10001"),
        ),
    ],
)
def test_command_line_overrides_the_executor(
    section: object, overrides: Overrides, expected: ExecutorConfig
) -> None:
    assert apply_overrides(Config.model_validate({"executor": section}), overrides).executor == expected


def test_address_needs_executor_ray() -> None:
    with pytest.raises(InvalidInputError, match="--ray-address needs --executor ray"):
        apply_overrides(Config(), Overrides(ray_address="auto"))
    with pytest.raises(ValueError, match="`address`, which belongs to `kind: ray`"):
        Config.model_validate({"executor": {"kind": "local", "address": "auto"}})


def test_missing_ray_is_reported_before_the_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalgate.agents.factory.find_spec", lambda name: None)
    with pytest.raises(InvalidInputError) as caught:
        plan_run(project)
    assert str(caught.value) == (
        "evalgate.yaml:3:2: the executor `ray` needs the package `ray`, in the release of Ray that the "
        f"cluster has: {describe_install('ray')}"
    )
    assert plan_run(project, executor="local").executor == LOCAL
    with pytest.raises(InvalidInputError, match=r"^the executor `ray` needs"):
        plan_run(project, executor="local", overrides=Overrides(executor="ray"))


@pytest.mark.usefixtures("has_ray")
def test_plan_id_does_not_depend_on_the_executor(project: Path) -> None:
    assert compute_plan_id(plan_run(project)) == compute_plan_id(plan_run(project, executor="local"))


@pytest.mark.usefixtures("has_ray")
def test_replay_needs_no_cluster(project: Path) -> None:
    (project / "said.json").write_text((project / "s.evalset.json").read_text())
    plan = plan_run(project, agent={"kind": "replay", "path": "said.json"})
    agent = build_agent(plan.agent, plan.workspace, plan.agent_environ, plan.executor)
    assert not isinstance(agent, ClusterAgent)


def build_actor_spec(plan: Plan, address: str | None) -> ActorSpec:
    return ActorSpec.from_json(
        _build_cluster_spec(plan.executor, address, plan.agent, plan.workspace, plan.agent_environ).spec
    )


@pytest.mark.usefixtures("has_ray")
def test_nodes_receive_only_the_agents_environment(project: Path) -> None:
    agent = {
        "kind": "http",
        "url": "http://model",
        "env": ["MODEL_KEY"],
        "headers": {"authorization": "Bearer ${API_TOKEN}"},
    }
    plan = plan_run(project, agent=agent)
    asked_for = {"MODEL_KEY": "key-of-the-model", "API_TOKEN": "in-a-header"}
    assert build_actor_spec(plan, "auto").environ == asked_for
    assert build_actor_spec(plan, None).environ == {**asked_for, "PATH": "/bin", "HOME": "/nowhere"}


@pytest.mark.usefixtures("has_ray")
def test_working_folder_is_sent_shared_or_local(project: Path) -> None:
    sent = plan_run(project, executor={"kind": "ray", "exclude": "data"})
    given = _build_cluster_spec(sent.executor, "auto", sent.agent, sent.workspace, ENVIRON)
    assert (build_actor_spec(sent, "auto").folder, given.runtime_env["working_dir"]) == (None, str(project))
    assert given.runtime_env["excludes"] == ["data"]
    shared = plan_run(project, executor={"kind": "ray", "workspace": "shared"})
    given = _build_cluster_spec(shared.executor, "auto", shared.agent, shared.workspace, ENVIRON)
    assert (build_actor_spec(shared, "auto").folder, "working_dir" in given.runtime_env) == (
        str(project),
        False,
    )
    assert build_actor_spec(sent, None).folder == str(project)
    assert given.actors == 3


def test_ray_environment_holds_no_secrets_of_the_agent() -> None:
    given = _build_ray_env(ENVIRON)
    assert {"MODEL_KEY", "DEPLOY_KEY", "API_TOKEN", "RAY_ADDRESS"} & given.keys() == set()
    assert given["RAY_AUTH_TOKEN"] == "of-the-cluster"
    assert given["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.usefixtures("has_ray")
def test_actor_builds_the_agent_of_the_plan(project: Path) -> None:
    (project / "agent.py").write_text("def answer(text):\n    return text\n")
    agent = build_actor_spec(plan_run(project), None).build_agent()
    assert isinstance(agent, WorkerPool)
    assert (agent._launch.cwd, agent._options.workers) == (project, 1)
    assert agent._launch.env["MODEL_KEY"] == "key-of-the-model"
    assert "DEPLOY_KEY" not in agent._launch.env
