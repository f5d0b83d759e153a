# The gateway in an image of its own: `counterfoil serve` as an unprivileged user, its ledger in a volume.
#
#   docker build -t counterfoil .
#   docker run --network host --read-only --cap-drop ALL --security-opt no-new-privileges --pids-limit 256 --memory 1g \
#     --tmpfs /tmp:rw,noexec,nosuid,nodev,size=64m \
#     -v ./gateway.yaml:/etc/counterfoil/gateway.yaml:ro -v ./policies:/etc/counterfoil/policies:ro \
#     -v counterfoil:/var/lib/counterfoil counterfoil
#   docker exec … counterfoil doctor --config /etc/counterfoil/gateway.yaml --url http://127.0.0.1:8321
#
# It needs no capability, no shell and nothing to write but its volume: the ledger, and the key that signs run tokens.
# A seal's `head` belongs on another volume, which whoever can write the ledger cannot write.
#
# `--network host`: the gateway listens on loopback only, and refuses any other address until it can tell who is asking.
# Loopback inside a container is the container's own, so agents reach it from the host's network, or from a container
# that shares its network namespace (a sidecar: `--network container:NAME`).
#
# Upstreams over HTTP need nothing more. Those over stdio are programs: add them in an image that starts FROM this one.

FROM python:3.13-slim AS build
WORKDIR /src
# Every pinned wheel, each checked against its hash: from here on nothing is fetched that the lock does not name, but
# for the build backend. The tools of development are among them and stay behind in this stage.
COPY requirements.lock ./
RUN pip wheel --no-cache-dir --no-deps --only-binary :all: --require-hashes -r requirements.lock --wheel-dir /wheels
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
RUN python -m venv --without-pip /opt/counterfoil \
 && pip --python /opt/counterfoil/bin/python install --no-cache-dir --no-index --find-links /wheels 'counterfoil[postgres]'

FROM python:3.13-slim
# What the image brings and a gateway never needs: an installer, and programs that run as somebody else.
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin counterfoil \
 && python -m pip uninstall --yes --quiet --root-user-action ignore pip \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && install -d -o counterfoil -g counterfoil -m 0700 /var/lib/counterfoil
COPY --from=build /opt/counterfoil /opt/counterfoil
ENV PATH=/opt/counterfoil/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HEALTH_PORT=8321 \
    XDG_STATE_HOME=/var/lib
USER 10001:10001
WORKDIR /var/lib/counterfoil
VOLUME /var/lib/counterfoil
HEALTHCHECK --interval=30s --timeout=5s --start-period=15s CMD ["python", "-c", \
  "import http.client as h, os; c = h.HTTPConnection('127.0.0.1', int(os.environ['HEALTH_PORT']), timeout=3); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["counterfoil"]
CMD ["serve", "--config", "/etc/counterfoil/gateway.yaml"]
