# The control plane and the tools for people: one static binary, nothing else.
# Build from the root of the checkout: make images
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/fairslice ./cmd/fairslice

FROM scratch
COPY --from=build /out/fairslice /fairslice
USER 65532:65532
ENTRYPOINT ["/fairslice"]
