# Sidecall as an image: one static binary and the CA certificates, nothing else.
# There is no shell, no package manager and no /tmp in it, and it runs as a user
# without a name or rights. `make check-image` proves the content without a
# Docker engine, from the same two lines that end with COPY --from=build below.
#
#   docker build -t sidecall --build-arg VERSION=v0.1.0 .
#   docker run --rm sidecall demo
#
# Beside an agent: the sidecar listens on loopback or on a unix socket, so share
# one of them. Same network namespace (a pod; --network container:agent), or a
# volume with the socket (listen: [unix:///var/lib/sidecall/sidecall.sock]). The
# socket has mode 0600: the agent must then run as the same user (65532) or as
# root. Then keep the operator's socket, by default beside the store in
# /var/lib/sidecall, out of that volume: operator: unix:///another/directory/op.sock.
#
#   docker run --network container:agent \
#     -v $PWD/sidecall:/etc/sidecall:ro \
#     -v sidecall:/var/lib/sidecall sidecall
#
# No HEALTHCHECK: some engines restart what it calls unhealthy, and a sidecar
# whose store is away gets well by itself. Whoever wants to know asks with a
# command of the image, as an exec probe (readiness, not liveness):
#
#   ["/usr/bin/sidecall", "ready"]      and for liveness  ["/usr/bin/sidecall", "ready", "--live"]
#
# Mount the directory of the config rather than the file: it is read anew when it changes.

# The one image that the build trusts, by its digest: a tag can be moved. It is that of
# the official image for all platforms, as docker-library/repo-info records it
# (repos/golang/remote/1.26.8.md), and `docker buildx imagetools inspect` prints it.
# Another one: --build-arg GO_IMAGE=golang:1.26.9@sha256:…
ARG GO_IMAGE=golang:1.26.8@sha256:ec0383e177f24920f5498de7d96d1cd81ada095b430dda72f8b863b99a485ff6
FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN tools/image-root.sh /out "$VERSION"

FROM scratch
COPY --from=build /out/root/ /
COPY --from=build --chown=65532:65532 /out/state/ /var/lib/sidecall/
# The store: ./sidecall.db of a config that does not say otherwise. Calls are
# remembered for as long as this volume is.
VOLUME /var/lib/sidecall
WORKDIR /var/lib/sidecall
# Whatever needs a temporary file (the demo) makes it in the volume.
ENV TMPDIR=/var/lib/sidecall SIDECALL_DIR=/var/lib/sidecall
USER 65532:65532
ENTRYPOINT ["/usr/bin/sidecall"]
CMD ["serve", "--config", "/etc/sidecall/sidecall.yaml"]
