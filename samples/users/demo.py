"""Simulated users without a key: scenarios are played, a fault is found, and stories become written cases."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from user_server import UserServer

HERE = Path(__file__).parent
KEY = "no-key-at-all"


def evalgate(*arguments, folder, url):
    """Run the command in `folder`, as a user would; its exit code."""
    print(f"\n$ evalgate {' '.join(arguments)}", flush=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    environ |= {"USER_URL": url, "USER_KEY": KEY}
    done = subprocess.run([sys.executable, "-m", "evalgate", *arguments], cwd=folder, env=environ, check=False)
    print(f"→ exit code {done.returncode}", flush=True)
    return done.returncode


def main():
    """Play the story; 0 when every step ended as it should."""
    with tempfile.TemporaryDirectory() as temporary, UserServer(KEY) as server:
        folder = Path(temporary) / "users"
        shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("demo.py", "user_server.py", "__pycache__"))
        print("1. The agent as it is. A simulated user plays two scenarios.", flush=True)
        codes = [evalgate("run", folder=folder, url=server.url)]
        print("\n2. Stories become written cases, for a person to review.", flush=True)
        made = "made.evalset.json"
        codes.append(evalgate("generate", "stories.csv", "--to", "adk", "-o", made, folder=folder, url=server.url))
        print("\n3. These need no model any more.", flush=True)
        codes.append(evalgate("run", made, "-c", "written.yaml", folder=folder, url="nowhere"))
        print("\n4. Somebody makes the agent forget how many people come.", flush=True)
        agent = folder / "agent.py"
        agent.write_text(agent.read_text("utf-8").replace("= NUMBERS[word]", "= 1"), encoding="utf-8")
        codes.append(evalgate("run", folder=folder, url=server.url))
        codes.append(evalgate("run", made, "-c", "written.yaml", folder=folder, url="nowhere"))
    return 0 if codes == [0, 0, 0, 1, 1] else 1


if __name__ == "__main__":
    sys.exit(main())
