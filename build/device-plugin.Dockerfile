# The device plugin. It opens NVIDIA's library at run time, which a static
# binary cannot: the C library and its loader come along, and the library that
# holds containers to their memory, which is copied to the host for them.
# Build from the root of the checkout: make images
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=1 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/fairslice ./cmd/fairslice
RUN make -C deviceplugin/interceptor library OUT=/out/interceptor
# What the binary is linked against, with the loader, at the same paths. libdl,
# libpthread and librt are stubs that NVIDIA's library may still name.
RUN set -eu; mkdir -p /out/root; \
    { ldd /out/fairslice | grep -o '/[^ ]*'; ls /lib/*-linux-gnu/libdl.so.2 /lib/*-linux-gnu/libpthread.so.0 /lib/*-linux-gnu/librt.so.1 /lib/*-linux-gnu/libm.so.6; } \
    | sort -u | while read -r lib; do install -D "$lib" "/out/root$lib"; done

FROM scratch
COPY --from=build /out/root/ /
COPY --from=build /out/interceptor/libfairslice.so /usr/lib/fairslice/libfairslice.so
COPY --from=build /out/fairslice /fairslice
ENTRYPOINT ["/fairslice"]
