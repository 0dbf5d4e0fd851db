// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

// replica is a further control plane that takes part in the election.
type replica struct {
	name string
	port int
}

func (f fixture) startReplica(name, kubeconfig string) replica {
	f.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	f.must(err)
	r := replica{name, listener.Addr().(*net.TCPAddr).Port}
	f.must(listener.Close())
	f.must(f.StartProcess(f.ctx, bed.Process{Name: name, Path: f.Binary, Args: []string{
		"controlplane", "--kubeconfig=" + kubeconfig, "--namespace=" + stack.Namespace, fmt.Sprintf("--listen=127.0.0.1:%d", r.port),
		"--insecure-http", "--leader-elect", "--lease-duration=4s",
	}}))
	f.t.Cleanup(func() { f.report(f.Kill(name)) })
	return r
}

// readiness is the answer to the probe: "" when ready.
func (r replica) readiness() string {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", r.port))
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp.Status + " " + string(text)
	}
	return ""
}

// TestOnlyTheLeaderIsReady guards report R97: of two replicas one is ready, a
// paused leader is replaced, and the one that wakes up again decides nothing.
func TestOnlyTheLeaderIsReady(t *testing.T) {
	f := use(t, stack.A100("n0", 1))
	config, err := f.ServiceAccountConfig(f.ctx, stack.Namespace, stack.ControlPlane)
	f.must(err)
	kubeconfig, err := f.WriteKubeconfig("replica", config)
	f.must(err)
	first := f.startReplica("replica-1", kubeconfig)
	f.eventually(20*time.Second, first.readiness)
	second := f.startReplica("replica-2", kubeconfig)
	f.always(2*time.Second, func() string {
		if second.readiness() == "" {
			return "both replicas are ready"
		}
		return ""
	})
	f.must(f.Signal(first.name, syscall.SIGSTOP))
	f.eventually(20*time.Second, second.readiness)
	f.must(f.Signal(first.name, syscall.SIGCONT))
	f.always(2*time.Second, func() string {
		if first.readiness() == "" {
			return "the leader that was paused is ready beside its successor"
		}
		return ""
	})
}
