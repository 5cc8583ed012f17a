"""Record how Docker Compose interprets services: `python -m tests.conformance.compose` writes compose_cases.json.

This needs `docker compose`. Each case has a service, and the output of `config --format json` for it with the names
of `ContainerSpec`: durations in seconds, sizes in bytes, `$$` as `$`.
"""

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

ENVIRON = {"A": "a", "EMPTY": "", "PLAIN": "2"}
DOTENV = 'DOT=dot\nPLAIN=never\nQUOTED="x y"\n'
FILES = {
    "more.env": (
        "# c\nA1=1 # c\nexport B1='x # y'\nC1=\"a\\nb\" # c\nD1=\nF1 = a b \nG1=x#y\nH1='$A'\nUNI=ü\nT1=\ttab\t\n"
        'I1="it\'s"\nJ1=\'say "hi"\'\nK1=a=b\n'
    ),
    "last.env": "A1=last\nPLAIN=file\n",
}
SERVICES: list[dict[str, Any]] = [
    {"environment": {"K": "$A-${A}-$$A"}},
    {"environment": {"K": "${GONE}|$GONE|${EMPTY}"}},
    {"environment": {"K": "${GONE:-x}|${EMPTY:-x}|${EMPTY-x}|${A:-x}|${GONE-y z}"}},
    {"environment": {"K": "${GONE:+x}|${EMPTY:+x}|${EMPTY+x}|${A:+x}"}},
    {"environment": {"K": "${A:?no}|${EMPTY?no}"}},
    {"environment": {"K": "${DOT} ${PLAIN} ${QUOTED}"}},
    {"environment": ["K=1", "L=a=b", "A", "GONE", "M="]},
    {"environment": {"N": 1.5, "B": True, "I": 7, "Z": None, "A": None, "E": ""}},
    {"env_file": "more.env"},
    {"env_file": ["more.env", "last.env"], "environment": {"PLAIN": "own"}},
    {"env_file": [{"path": "more.env"}, {"path": "gone.env", "required": False}]},
    {"command": "python3 'a b' server.py --x=\"q r\""},
    {"command": ["a", "$A"]},
    {"entrypoint": "sh -c 'exit 3'"},
    {"entrypoint": []},
    {"volumes": ["./code:/code", "/anon", "data:/data:ro", "./words.txt:/w:ro"]},
    {
        "volumes": [
            {"type": "tmpfs", "target": "/t"},
            {"type": "volume", "source": "data", "target": "/data", "read_only": True},
            {"type": "bind", "source": "./code", "target": "/c"},
        ]
    },
    {"tmpfs": "/run"},
    {"tmpfs": ["/run", "/var/x"]},
    {
        "healthcheck": {
            "test": "curl -f localhost",
            "interval": "1m30s",
            "timeout": "200ms",
            "retries": 3,
            "start_period": "1h",
        }
    },
    {"healthcheck": {"test": ["CMD", "true"], "interval": "1.5s"}},
    {"healthcheck": {"disable": True}},
    {"extra_hosts": ["a:1.2.3.4", "b=5.6.7.8"]},
    {"extra_hosts": ["six:::1"]},
    {"mem_limit": "512m", "cpus": "1.5", "pids_limit": 64},
    {"cpus": 2, "mem_limit": 1048576},
    {"user": "1000", "working_dir": "/w", "hostname": "h", "read_only": True, "cap_drop": ["ALL"]},
    {"user": "${A}:${EMPTY:-0}"},
    {"image": None, "build": "./code"},
    {
        "image": None,
        "build": {
            "context": "code",
            "dockerfile": "D",
            "target": "t",
            "args": {"X": "1", "A": None, "GONE": None},
        },
    },
    {"image": None, "build": {"context": ".", "args": ["X=$A", "A"]}},
]
SAME = ("command", "entrypoint", "cpus", "user", "hostname", "read_only", "cap_drop")
RENAMED = {"pids_limit": "pids", "working_dir": "folder", "environment": "env"}
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def write_project(folder: Path) -> None:
    """Write the files that the services name."""
    (folder / "code").mkdir()
    (folder / "words.txt").touch()
    for name, text in {**FILES, ".env": DOTENV}.items():
        (folder / name).write_text(text, "utf-8")


def ask_compose(service: dict[str, Any]) -> dict[str, Any]:
    """Return the service as Compose prints it, with paths relative to the project."""
    document = {"services": {"weather": service}, "volumes": {"data": None}}
    with tempfile.TemporaryDirectory() as folder:
        write_project(Path(folder))
        printed = subprocess.run(
            ["docker", "compose", "--project-directory", folder, "-f", "-", "config", "--format", "json"],
            input=json.dumps(document),
            env={**ENVIRON, "PATH": "/usr/local/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    found: dict[str, Any] = json.loads(printed.replace("$$", "$").replace(f"{folder}/", ""))
    return dict(json.loads(json.dumps(found["services"]["weather"]).replace(json.dumps(folder), '"."')))


def normalize_service(service: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a service that evalgate uses, with the names of `ContainerSpec`."""
    found = {name: service[name] for name in SAME if service.get(name) is not None}
    found |= {ours: service[theirs] for theirs, ours in RENAMED.items() if service.get(theirs)}
    if "env" in found:
        found["env"] = {name: value for name, value in found["env"].items() if value is not None}
    volumes = service.get("volumes", ())
    kept = [each for each in volumes if each["type"] == "volume"]
    found["volumes"] = [
        [each["source"], each["target"], each.get("read_only", False)] for each in kept if "source" in each
    ]
    found["scratch"] = [each["target"] for each in kept if "source" not in each]
    found["copied"] = [[each["source"], each["target"]] for each in volumes if each["type"] == "bind"]
    tmpfs = [each["target"] for each in volumes if each["type"] == "tmpfs"]
    found["tmpfs"] = [*service.get("tmpfs", ()), *tmpfs]
    found["extra_hosts"] = dict(each.split("=", 1) for each in service.get("extra_hosts", ()))
    found["memory"] = int(service.get("mem_limit", 0))
    if "healthcheck" in service:
        found["health"] = _normalize_health(service["healthcheck"])
    if "build" in service:
        build = service["build"]
        args = {name: value for name, value in build.get("args", {}).items() if value is not None}
        found["build"] = {**build, "args": args}
    return {name: value for name, value in found.items() if value or name == "entrypoint"}


def _normalize_health(check: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {name: check[name] for name in ("test", "retries") if name in check}
    for name in ("interval", "timeout", "start_period"):
        if name in check:
            parts = re.findall(r"([\d.]+)(ms|h|m|s)", check[name])
            found[name] = sum(float(number) * UNITS[unit] for number, unit in parts)
    return {"test": ["NONE"]} if check.get("disable") else found


def main() -> None:
    """Ask Compose about each service and write the cases."""
    cases = []
    for given in SERVICES:
        service = {name: value for name, value in {"image": "x", **given}.items() if value is not None}
        cases.append([service, normalize_service(ask_compose(service))])
    version = subprocess.run(
        ["docker", "compose", "version", "--short"], capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    text = f'{{\n"compose": "{version}",\n"services": [\n{lines}\n]\n}}\n'
    Path(__file__).with_name("compose_cases.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
