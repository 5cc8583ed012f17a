# The gate as a container: `docker run --rm -v "$PWD:/workspace" evalgate run`, and the image of action.yml.
# Nothing here needs BuildKit: self-hosted runners and local stand-ins for them build with the classic builder.

FROM python:3.13-slim-trixie AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/venv
ARG EXTRAS="azure docker gcs github gitlab http judge otel s3 trpc"
# The dependencies alone first: they change less often than the code, so this layer is mostly cached.
COPY pyproject.toml ./
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print(*p['dependencies'], *(n for extra in '$EXTRAS'.split() for n in p['optional-dependencies'][extra]), sep='\n')" > /tmp/requirements.txt \
    && pip --python /opt/venv/bin/python install --no-cache-dir --only-binary :all: \
        --requirement /tmp/requirements.txt
COPY README.md LICENSE ./
COPY evalgate evalgate
RUN pip --python /opt/venv/bin/python install --no-cache-dir --no-deps . \
    && chmod -R a+rX /opt/venv

FROM python:3.13-slim-trixie
# git: the rules of a pull request are read from its base branch, and a baseline may lie on a branch of its own.
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends git > /dev/null \
    && rm -rf /var/lib/apt/lists/*
# The base image comes without compiled modules, and whoever runs this one may not be able to write them.
RUN python -m compileall -q -x '/(test|tests|idlelib|tkinter|turtledemo)/' \
        "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=build /opt/venv /opt/venv
# On PATH for the pipelines that start a shell in the image. The folder itself stays off PATH: `python` and `pip`
# are the agent's, and must not meet the gate's packages.
RUN ln -s /opt/venv/bin/evalgate /usr/local/bin/evalgate
WORKDIR /workspace
# No USER: a container action has to run as root, or it cannot write to the runner's file commands and workspace.
# https://docs.github.com/en/actions/sharing-automations/creating-actions/dockerfile-support-for-github-actions#user
# The gate gives up root for everything that it starts: the agent and its set-up run as the workspace's owner.
#
# -I: neither PYTHONPATH nor a module in the workspace can replace a part of the gate.
# -B: no __pycache__. -u: output and error lines keep their order in a log.
ENTRYPOINT ["/opt/venv/bin/python", "-IBu", "-m", "evalgate"]
