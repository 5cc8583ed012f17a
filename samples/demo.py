"""`make demo`: a sample agent passes, then the same agent with a careless prompt change is caught."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLE = Path(__file__).parent / "order_desk"


def evalgate(*arguments, folder):
    """Run the command in `folder`, as a user would; its exit code."""
    print(f"\n$ evalgate {' '.join(arguments)}", flush=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    done = subprocess.run([sys.executable, "-m", "evalgate", *arguments], cwd=folder, env=environ, check=False)
    print(f"→ exit code {done.returncode}", flush=True)
    return done.returncode


def main():
    """Play the story; 0 when every step ended as it should."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "order_desk"
        shutil.copytree(SAMPLE, folder)
        print("1. The agent as it is: four recorded conversations, two metrics, ten runs of each to know its luck.")
        first = evalgate("run", "--runs", "10", folder=folder)
        print("\n2. It is good: keep the runs as the baseline.")
        saved = evalgate("baseline", "save", folder=folder)
        print("\n3. Somebody shortens the prompt: the sentence about looking orders up is gone.")
        prompt = folder / "prompt.txt"
        prompt.write_text(prompt.read_text("utf-8").splitlines()[0] + "\n", encoding="utf-8")
        second = evalgate("run", folder=folder)  # `runs: auto`: every case once, and again what is in doubt
        print("\n4. What the pull request would show (evalgate-report/comment.md):\n")
        print((folder / "evalgate-report" / "comment.md").read_text("utf-8"))
    print("How to go on: `cd` into your own repository and run `evalgate init`; README.md says the rest.")
    return 0 if (first, saved, second) == (0, 0, 1) else 1


if __name__ == "__main__":
    sys.exit(main())
