// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

const (
	socketPrefix = "fairslice-"
	// KubeletSocket is the kubelet's registration socket in the directory.
	KubeletSocket = "kubelet.sock"
	// maxRequestBytes for GetPreferredAllocation, which names all free devices;
	// gRPC's default of 4 MiB has refused such calls (VDP #152).
	maxRequestBytes = 16 << 20

	firstRetry, lastRetry = 50 * time.Millisecond, 5 * time.Second
	registerTimeout       = 10 * time.Second
)

// Config of the servers.
type Config struct {
	// Dir holds the kubelet's socket and ours.
	Dir string
	// Names of the resources; an empty one is not served.
	Names match.Names
	// Book decides.
	Book *match.Book
	// Respond shapes the answers.
	Respond Responder
	// Settle brings the book up to the kubelet's checkpoint; it is local and quick.
	Settle func() error
	// Identify says for which container devices were recorded, at its start.
	Identify func(ctx context.Context, k pool.Kind, ids []string) (match.Owner, bool)
	// Start makes the container's limit ready, at its start.
	Start func(k pool.Kind, ids []string) error
	// InformerWait bounds how long a call waits for a pod that the kubelet has
	// seen and the informer has not.
	InformerWait time.Duration
	// Poll is how often the kubelet's socket is looked at beside inotify.
	Poll time.Duration
	// Now is the clock.
	Now func() time.Time
	// Registered is told after each registration; may be nil.
	Registered func(resource string)
	// Log.
	Log *slog.Logger
}

// started makes the socket names of one process unique, the time those of
// several.
var started atomic.Int64

// Run serves until ctx is done: again whenever the kubelet restarts. It returns
// only errors that no waiting can cure.
func Run(ctx context.Context, cfg Config) error {
	removeDead(cfg.Dir, cfg.Log)
	for ctx.Err() == nil {
		if err := generation(ctx, &cfg); err != nil {
			return err
		}
	}
	return nil
}

// generation serves and registers, until the kubelet goes away or ctx is done.
func generation(parent context.Context, cfg *Config) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	kubelet, err := awaitKubelet(ctx, cfg.Dir, cfg.Poll)
	if err != nil || ctx.Err() != nil {
		return err
	}
	nonce := fmt.Sprintf("%d-%x-%d", os.Getpid(), time.Now().UnixNano(), started.Add(1))
	var sockets []string
	for _, k := range cfg.Names.Served() {
		socket := filepath.Join(cfg.Dir, fmt.Sprintf("%s%s-%s.sock", socketPrefix, k, nonce))
		stop, err := serve(socket, k, cfg)
		if err != nil {
			return err
		}
		defer stop()
		sockets = append(sockets, socket)
		go registerUntilDone(ctx, cfg, filepath.Base(socket), cfg.Names[k])
	}
	// The kubelet removes our sockets when it starts: that ends this generation
	// even if its own socket was replaced unseen.
	return kubelet.untilReplaced(ctx, sockets)
}

// serve starts one server and returns what stops it.
func serve(socket string, k pool.Kind, cfg *Config) (func(), error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listening for the kubelet: %w", err)
	}
	// A kubelet that starts right now has removed it; untilReplaced will notice.
	if err := os.Chmod(socket, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("restricting %s: %w", socket, err), l.Close())
	}
	done := make(chan struct{})
	s := &server{kind: k, cfg: cfg, log: cfg.Log, stop: done, missed: map[int]time.Time{}}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(maxRequestBytes), grpc.UnaryInterceptor(survive(cfg.Log)))
	deviceplugin.RegisterDevicePluginServer(g, s)
	go func() {
		if err := g.Serve(l); err != nil {
			cfg.Log.Error("the server of a resource ended", "resource", cfg.Names[k], "error", err)
		}
	}()
	return func() {
		close(done)
		g.Stop() // closes the listener, which removes the socket
	}, nil
}

// survive turns a panic in a handler into an error of that call: a plugin that
// dies takes all devices of the node with it (VDP #2).
func survive(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
		defer func() {
			if r := recover(); r != nil {
				log.Error("panic in a call of the kubelet", "method", info.FullMethod, "panic", r, "stack", string(debug.Stack()))
				err = status.Errorf(codes.Internal, "the Fairslice device plugin failed in %s: %v", info.FullMethod, r)
			}
		}()
		return next(ctx, req)
	}
}

// registerUntilDone retries with growing pauses until the kubelet says yes.
func registerUntilDone(ctx context.Context, cfg *Config, endpoint, resource string) {
	for wait := firstRetry; ctx.Err() == nil; wait = min(2*wait, lastRetry) {
		err := register(ctx, filepath.Join(cfg.Dir, KubeletSocket), endpoint, resource)
		if err == nil {
			cfg.Log.Info("registered with the kubelet", "resource", resource, "endpoint", endpoint)
			if cfg.Registered != nil {
				cfg.Registered(resource)
			}
			return
		}
		if ctx.Err() == nil {
			cfg.Log.Warn("the kubelet did not take the registration", "resource", resource, "retry", wait, "error", err)
		}
		pause(ctx, wait)
	}
}

func register(ctx context.Context, socket, endpoint, resource string) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("preparing the registration: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	_, err = deviceplugin.NewRegistrationClient(conn).Register(ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: endpoint, ResourceName: resource, Options: options(),
	})
	if err != nil {
		return fmt.Errorf("registering %s: %w", resource, err)
	}
	return nil
}

// removeDead removes sockets that an earlier process of ours left behind. One that
// still answers belongs to a living process and stays.
func removeDead(dir string, log *slog.Logger) {
	left, _ := filepath.Glob(filepath.Join(dir, socketPrefix+"*.sock"))
	for _, socket := range left {
		c, err := net.DialTimeout("unix", socket, time.Second)
		if err == nil {
			_ = c.Close()
			log.Warn("another Fairslice device plugin serves on this node", "socket", socket)
			continue
		}
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("cannot remove an old socket", "socket", socket, "error", err)
		}
	}
}
