// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/fairslice/fairslice/test/bed"
)

// server is the one API server of all tests in this package: starting one takes
// seconds, and transcripts clean up what they create.
var server *fixture

type fixture struct {
	cluster *bed.Cluster
	mapper  meta.RESTMapper
	clients map[string]dynamic.Interface
	// warnings of the API server since a transcript last read them.
	warnings warnings
}

// warnings is a rest.WarningHandler that keeps them.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.texts = append(w.texts, text)
}

// take returns them, one a line, and forgets them.
func (w *warnings) take() string {
	out := ""
	for _, text := range w.texts {
		out += "warning: " + text + "\n"
	}
	w.texts = nil
	return out
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	cluster, err := bed.Start(ctx, bed.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the control plane:", err)
		return 1
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
		}
	}()
	server = &fixture{cluster: cluster, clients: map[string]dynamic.Interface{}}
	if err := server.install(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "apply the manifests:", err)
		return 1
	}
	return m.Run()
}

// install does what docs/quickstart.md tells an administrator to do, then makes
// the people and things that the transcripts speak of.
func (f *fixture) install(ctx context.Context) error {
	steps := [][]string{
		{"apply", "--server-side", "-k", "../../manifests/crd"},
		{"wait", "--for=condition=Established", "--timeout=60s", "crd/queues.fairslice.io", "crd/podgroups.fairslice.io", "crd/topologies.fairslice.io"},
		{"apply", "--server-side", "-k", "../../manifests"},
		{"apply", "--server-side", "-f", "testdata/world.yaml"},
	}
	for _, step := range steps {
		if _, err := f.cluster.Kubectl(ctx, step...); err != nil {
			return err
		}
	}
	groups, err := restmapper.GetAPIGroupResources(f.cluster.Client().Discovery())
	if err != nil {
		return err
	}
	f.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	for _, namespace := range []string{"research", "plain", "elsewhere", "kube-system", "fairslice-system"} {
		if err := f.waitFor(ctx, "service account of namespace "+namespace, func() error {
			_, err := f.cluster.Client().CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
			return err
		}); err != nil {
			return err
		}
	}
	return f.waitForPolicies(ctx)
}

// waitForPolicies returns when every policy acts: the API server learns of them
// by a watch, a moment after they are stored.
func (f *fixture) waitForPolicies(ctx context.Context) error {
	pods := f.cluster.Client().CoreV1().Pods("plain")
	probe := func(change func(*corev1.Pod)) (*corev1.Pod, error) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{}, Annotations: map[string]string{}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
		}
		change(pod)
		return pods.Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	for policy, change := range map[string]func(*corev1.Pod){
		"fairslice-pod-requests": func(p *corev1.Pod) { p.Annotations["fairslice.io/gpu-count"] = "17" },
		"fairslice-assignment":   func(p *corev1.Pod) { p.Annotations["fairslice.io/gpu-assignment"] = "x" },
		"fairslice-pod-node":     func(p *corev1.Pod) { p.Labels["fairslice.io/queue"], p.Spec.NodeName = "q", "n" },
	} {
		if err := f.waitFor(ctx, "policy "+policy, func() error {
			_, err := probe(change)
			switch {
			case err == nil:
				return errors.New("a probe was accepted")
			case strings.Contains(err.Error(), policy):
				return nil
			}
			return err
		}); err != nil {
			return err
		}
	}
	admin, err := f.client(ctx, "admin")
	if err != nil {
		return err
	}
	if err := f.waitFor(ctx, "policy fairslice-names", func() error {
		pod := &unstructured.Unstructured{}
		pod.SetUnstructuredContent(map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "probe", "labels": map[string]any{"fairslice.io/no": "such"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "none"}}},
		})
		_, err := admin.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("plain").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && !strings.Contains(f.warnings.take(), "fairslice-names") {
			return errors.New("a probe drew no warning")
		}
		return err
	}); err != nil {
		return err
	}
	return f.waitFor(ctx, "mutating policies", func() error {
		pod, err := probe(func(p *corev1.Pod) { p.Labels["fairslice.io/queue"] = "crowded" })
		if err == nil && (len(pod.Spec.SchedulingGates) == 0 || len(pod.Spec.Containers[0].Resources.Limits) == 0) {
			return errors.New("a probe was not gated or not marked")
		}
		return err
	})
}

func (f *fixture) waitFor(ctx context.Context, what string, condition func() error) error {
	deadline := time.Now().Add(time.Minute)
	for {
		err := condition()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s after a minute: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// client returns a client for a name in a transcript: admin, alice, mallory,
// controlplane, node-a (a kubelet) or plugin-a (the device plugin on node-a).
func (f *fixture) client(ctx context.Context, who string) (dynamic.Interface, error) {
	if c := f.clients[who]; c != nil {
		return c, nil
	}
	config, err := f.config(ctx, who)
	if err != nil {
		return nil, err
	}
	config.WarningHandler = &f.warnings
	c, err := dynamic.NewForConfig(config)
	if err == nil {
		f.clients[who] = c
	}
	return c, err
}

func (f *fixture) config(ctx context.Context, who string) (*rest.Config, error) {
	switch {
	case who == "admin":
		return f.cluster.AdminConfig()
	case who == "controlplane":
		return f.cluster.ServiceAccountConfig(ctx, "fairslice-system", "fairslice-controlplane")
	case who == "plugin":
		return f.cluster.ServiceAccountConfig(ctx, "fairslice-system", "fairslice-device-plugin")
	case strings.HasPrefix(who, "plugin-"):
		return f.boundToken(ctx, who)
	case strings.HasPrefix(who, "node-"):
		return f.cluster.RESTConfig("system:node:"+who, "system:nodes")
	default:
		return f.cluster.RESTConfig(who)
	}
}

// boundToken authenticates as the pod of that name in fairslice-system would:
// its token says on which node the pod is.
func (f *fixture) boundToken(ctx context.Context, podName string) (*rest.Config, error) {
	core := f.cluster.Client().CoreV1()
	pod, err := core.Pods("fairslice-system").Get(ctx, podName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	token, err := core.ServiceAccounts("fairslice-system").CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config, err := f.cluster.AdminConfig()
	if err != nil {
		return nil, err
	}
	config.CertData, config.KeyData, config.BearerToken = nil, nil, token.Status.Token
	return config, nil
}

func (f *fixture) core() kubernetes.Interface { return f.cluster.Client() }
