"""`make demo-judge`: a judged gate without any key: a good agent, a cached run, a wrong price, a weak judge."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from judge_server import JudgeServer

HERE = Path(__file__).parent
KEY = "no-key-at-all"


def evalgate(*arguments, folder, url):
    """Run the command in `folder`, as a user would; its exit code."""
    print(f"\n$ evalgate {' '.join(arguments)}", flush=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    environ |= {"JUDGE_URL": url, "JUDGE_KEY": KEY}
    done = subprocess.run([sys.executable, "-m", "evalgate", *arguments], cwd=folder, env=environ, check=False)
    print(f"→ exit code {done.returncode}", flush=True)
    return done.returncode


def main():
    """Play the story; 0 when every step ended as it should."""
    with tempfile.TemporaryDirectory() as temporary, JudgeServer(KEY) as server:
        folder = Path(temporary) / "judge"
        shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("demo.py", "judge_server.py", "__pycache__"))
        print("1. The agent as it is. A local server judges; the anchors go first.", flush=True)
        codes = [evalgate("run", folder=folder, url=server.url)]
        print("\n2. The same again: every answer was paid for once.", flush=True)
        codes.append(evalgate("run", folder=folder, url=server.url))
        print("\n3. Somebody changes a price.", flush=True)
        (folder / "prices.txt").write_text("green tea: 5\nchai: 17\n", encoding="utf-8")
        codes.append(evalgate("run", folder=folder, url=server.url))
        print("\n4. The judge becomes a weak one: that is no verdict about the agent.", flush=True)
        server.sloppy = True
        codes.append(evalgate("run", "--judge-cache", "off", folder=folder, url=server.url))
    return 0 if codes == [0, 0, 1, 3] else 1


if __name__ == "__main__":
    sys.exit(main())
