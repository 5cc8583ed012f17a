# The gate as a container: `docker run --rm -v "$PWD:/workspace" evalgate run`, and the image of action.yml.
# With `--build-arg LOCK=image-full` it also reaches the buckets of S3, Google Cloud and Azure.
# Nothing here needs BuildKit: self-hosted runners and local stand-ins for them build with the classic builder.

# A release builds from the digest that the tag has that day, and says which one.
FROM python:3.13-slim-trixie AS base

FROM base AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/venv && python -m venv --without-pip /opt/build
ARG LOCK=image
# The dependencies alone first: they change less often than the code, so this layer is mostly cached.
COPY requirements/build.txt requirements/image.txt requirements/image-full.txt requirements/
RUN pip --python /opt/venv/bin/python install --no-cache-dir --only-binary :all: --no-deps --require-hashes \
        --requirement "requirements/$LOCK.txt" \
    && pip --python /opt/build/bin/python install --no-cache-dir --only-binary :all: --no-deps --require-hashes \
        --requirement requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY evalgate evalgate
# Messages about a missing package read that they are printed in an image, and in which.
RUN pip --python /opt/build/bin/python wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /tmp/wheel . \
    && pip --python /opt/venv/bin/python install --no-cache-dir --no-deps --no-index /tmp/wheel/*.whl \
    && echo "$LOCK" > /opt/venv/evalgate-image \
    && chmod -R a+rX /opt/venv

FROM base
# git: the rules of a pull request are read from its base branch, and a baseline may lie on a branch of its own.
# Without Perl's library (50 MB), with which git only sends mail, and without git's servers.
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends \
        -o Dpkg::Options::=--path-exclude='/usr/share/perl/*' \
        -o Dpkg::Options::=--path-exclude='/usr/lib/*/perl/*' \
        -o Dpkg::Options::=--path-exclude='/usr/lib/*/libperl.so*' \
        -o Dpkg::Options::=--path-exclude='/usr/lib/git-core/git-daemon' \
        -o Dpkg::Options::=--path-exclude='/usr/lib/git-core/git-http-*' \
        -o Dpkg::Options::=--path-exclude='/usr/lib/git-core/git-imap-send' \
        -o Dpkg::Options::=--path-exclude='/usr/lib/git-core/git-shell' \
        -o Dpkg::Options::=--path-exclude='/usr/lib/git-core/scalar' \
        -o Dpkg::Options::=--path-exclude='/usr/bin/scalar' \
        git > /dev/null \
    && ln -sf ../../bin/git /usr/lib/git-core/git \
    && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/lib/dpkg/*-old /var/cache/debconf/*-old
# The base image comes without compiled modules, and whoever runs this one may not be able to write them.
RUN python -m compileall -q -x '/(test|tests|idlelib|tkinter|turtledemo|pydoc_data|site-packages)/' \
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
