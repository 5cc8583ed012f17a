"""Measure the start-up time of the command `evalgate`."""

import tempfile

from benchmarks.measure import evalgate, median, python, write_project


def main():
    """Compare `--help` with `import click`, and a run of one case with `import pydantic, click, jinja2`."""
    click = median(python("import click"))
    help_ = median(evalgate("--help"))
    print(f"import click                     {click.wall * 1000:7.1f} ms wall")
    print(
        f"evalgate --help                  {help_.wall * 1000:7.1f} ms wall   × {help_.wall / click.wall:.2f} (goal 1.5)"
    )
    libraries = median(python("import pydantic, click, jinja2"))
    with tempfile.TemporaryDirectory() as folder:
        one = median(evalgate(*write_project(folder, 1)), cwd=folder)
    print(f"import pydantic, click, jinja2   {libraries.wall * 1000:7.1f} ms wall")
    print(
        f"evalgate run, one case           {one.wall * 1000:7.1f} ms wall   × {one.wall / libraries.wall:.2f} (goal 2.5)"
    )
