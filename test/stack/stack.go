// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/bed"
)

// ControlPlane is the component name of the control plane, for bed's Kill,
// Restart, Signal and Logs.
const ControlPlane = "fairslice-controlplane"

// Namespace is where Fairslice is installed.
const Namespace = "fairslice-system"

// Options of a Stack.
type Options struct {
	Bed bed.Options
	// Binary is a built cmd/fairslice; "" builds it from this checkout.
	Binary string
	// Progress gets a line for each step; nil for none.
	Progress io.Writer
	// ControlPlaneFlags are appended to the control plane's.
	ControlPlaneFlags []string
	// SchedulerFlags are appended to kube-scheduler's.
	SchedulerFlags []string
	// NoMutatingAdmission leaves out the policies that gate and mark pods, as
	// on clusters before 1.36.
	NoMutatingAdmission bool
}

// Stack is a cluster with Fairslice on it.
type Stack struct {
	*bed.Cluster
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Binary  string
	// Link is what the control plane reaches the API server by.
	Link *bed.Link

	options Options
	root    string // of the checkout
	port    int    // of the extender
	// kubeconfig of the control plane; flagged counts its restarts with flags.
	kubeconfig string
	flagged    int
	certs      certificates
	http       *http.Client
}

// Start brings everything up: about 15 s once the programs are built.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	s := &Stack{options: o, Binary: o.Binary}
	var err error
	if s.root, err = checkout(ctx); err != nil {
		return nil, err
	}
	s.step("starting etcd, kube-apiserver and kube-controller-manager (about 5 s once they are built)")
	if s.Cluster, err = bed.Start(ctx, o.Bed); err != nil {
		return nil, err
	}
	if err := s.install(ctx); err != nil {
		err = fmt.Errorf("%w\n%s", err, s.lastLines(ControlPlane, 20))
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Stack) install(ctx context.Context) error {
	s.Client = s.Cluster.Client()
	admin, err := s.AdminConfig()
	if err != nil {
		return err
	}
	if s.Dynamic, err = dynamic.NewForConfig(admin); err != nil {
		return err
	}
	if s.Binary == "" {
		s.step("building fairslice from this checkout")
		s.Binary = filepath.Join(s.Folder(), "fairslice")
		if err := s.command(ctx, "go", "build", "-o", s.Binary, "./cmd/fairslice"); err != nil {
			return err
		}
	}
	s.step("applying the manifests: kinds, rights, admission policies, default queue")
	if err := s.applyManifests(ctx); err != nil {
		return err
	}
	s.step("starting the control plane: extender and queue controller")
	if err := s.startControlPlane(ctx); err != nil {
		return err
	}
	s.step("starting the stock kube-scheduler with the extender configured, and kwok for simulated nodes")
	if err := s.startScheduler(ctx); err != nil {
		return err
	}
	return s.StartKwok(ctx)
}

func (s *Stack) step(text string) { fmt.Fprintln(s.options.Progress, "==> "+text) }

func checkout(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

func (s *Stack) command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// applyManifests applies what a cluster administrator would, less the
// Deployment and the DaemonSet: there are no images here, the same programs run
// as processes.
func (s *Stack) applyManifests(ctx context.Context) error {
	folder := filepath.Join(s.root, "manifests")
	apply := func(args ...string) error {
		_, err := s.Kubectl(ctx, append([]string{"apply", "--server-side"}, args...)...)
		return err
	}
	if err := apply("-k", filepath.Join(folder, "crd")); err != nil {
		return err
	}
	if err := apply("-f", filepath.Join(folder, "namespace.yaml")); err != nil {
		return err
	}
	if _, err := s.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=30s", "crd/queues.fairslice.io", "crd/podgroups.fairslice.io", "crd/topologies.fairslice.io"); err != nil {
		return err
	}
	parts := []string{"rbac", "defaults", "admission/validating"}
	if !s.options.NoMutatingAdmission {
		parts = append(parts, "admission/mutating")
	}
	for _, part := range parts {
		if err := apply("-k", filepath.Join(folder, part)); err != nil {
			return err
		}
	}
	if s.options.NoMutatingAdmission {
		return nil
	}
	return s.awaitAdmission(ctx)
}

// awaitAdmission waits until the API server has taken the policies up: pods
// created before would pass unmarked.
func (s *Stack) awaitAdmission(ctx context.Context) error {
	probe := Pod("probe", Queue(v1alpha1.DefaultQueue))
	return poll(ctx, 30*time.Second, "the admission policies to take effect", func() (bool, error) {
		p, err := s.Client.CoreV1().Pods(probe.Namespace).Create(ctx, probe.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, nil //nolint:nilerr // asked again: the namespace's service account is still being made
		}
		_, marked := p.Spec.Containers[0].Resources.Limits[corev1.ResourceName(v1alpha1.ResourceQueued)]
		return marked, nil
	})
}

func (s *Stack) startControlPlane(ctx context.Context) error {
	config, err := s.ServiceAccountConfig(ctx, Namespace, ControlPlane)
	if err != nil {
		return err
	}
	if s.Link, err = s.Through(config); err != nil {
		return err
	}
	if s.kubeconfig, err = s.WriteKubeconfig(ControlPlane, config); err != nil {
		return err
	}
	if s.port, err = freePort(); err != nil {
		return err
	}
	if s.certs, err = makeCertificates(filepath.Join(s.Folder(), "extender-tls")); err != nil {
		return fmt.Errorf("make the extender's certificates: %w", err)
	}
	if s.http, err = s.certs.httpClient(); err != nil {
		return err
	}
	return s.StartProcess(ctx, bed.Process{
		Name: ControlPlane, Path: s.Binary,
		Args:  append(s.controlPlaneArgs(s.kubeconfig), s.options.ControlPlaneFlags...),
		Ready: s.httpOK("/readyz"),
	})
}

func (s *Stack) controlPlaneArgs(kubeconfig string) []string {
	return []string{
		"controlplane", "--kubeconfig=" + kubeconfig, "--namespace=" + Namespace,
		fmt.Sprintf("--listen=127.0.0.1:%d", s.port),
		"--tls-cert=" + s.certs.serverCert, "--tls-key=" + s.certs.serverKey, "--client-ca=" + s.certs.ca,
	}
}

// ExtenderURL is the address that kube-scheduler calls.
func (s *Stack) ExtenderURL() string { return fmt.Sprintf("https://127.0.0.1:%d", s.port) }

func (s *Stack) httpOK(path string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.get(ctx, path)
		return err
	}
}

func (s *Stack) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.ExtenderURL()+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, resp.Status, strings.TrimSpace(string(raw)))
	}
	return raw, err
}

// Fairslice runs a command of the fairslice binary as the administrator and
// returns what it printed.
func (s *Stack) Fairslice(ctx context.Context, args ...string) (string, error) {
	kubeconfig, err := s.Kubeconfig(bed.Admin, bed.AdminGroup)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, s.Binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("fairslice %s: %w", strings.Join(args, " "), err)
	}
	return string(out), err
}

// LedgerDump reads the control plane's ledger into v, for the checker.
func (s *Stack) LedgerDump(ctx context.Context, v any) error {
	raw, err := s.get(ctx, "/debug/ledger")
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

func (s *Stack) lastLines(component string, n int) string {
	text, err := s.Logs(component)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// poll calls done every 50 ms until it says yes, fails, or the limit is over.
func poll(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s: %w", limit, what, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// readManifest returns a file of the manifests folder.
func (s *Stack) readManifest(name string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(s.root, "manifests", name))
	return string(raw), err
}
