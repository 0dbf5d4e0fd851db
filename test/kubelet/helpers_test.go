// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/check"
	"github.com/fairslice/fairslice/test/stack"
)

type fixture struct {
	*stack.Stack
	t   *testing.T
	ctx context.Context
}

// use gives the test the cluster with an unlimited queue "team".
func use(t *testing.T) fixture {
	t.Helper()
	f := fixture{Stack: shared, t: t, ctx: t.Context()}
	t.Cleanup(f.empty)
	f.must(f.CreateQueue(f.ctx, "team", map[string]any{}))
	return f
}

func (f fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) empty() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if f.t.Failed() {
		for _, component := range []string{stack.ControlPlane, node.Plugin(), node.Kubelet()} {
			if text, err := f.Logs(component); err == nil {
				lines := strings.Split(strings.TrimSpace(text), "\n")
				f.t.Logf("last lines of %s:\n%s", component, strings.Join(lines[max(0, len(lines)-25):], "\n"))
			}
		}
	}
	pods := f.Client.CoreV1().Pods(metav1.NamespaceDefault)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		f.t.Error("cleaning up:", err)
	}
	for left := 1; left > 0 && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			f.t.Error("cleaning up:", err)
			break
		}
		left = len(list.Items)
	}
	err := f.Dynamic.Resource(v1alpha1.QueueResource).Delete(ctx, "team", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		f.t.Error("cleaning up:", err)
	}
}

// pod runs a shell script on the real node.
func pod(name, script string, options ...stack.PodOption) *corev1.Pod {
	p := stack.Pod(name, append([]stack.PodOption{stack.Queue("team")}, options...)...)
	p.Spec.HostNetwork = true
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Spec.Containers[0].Image = bed.BusyboxImage
	p.Spec.Containers[0].Command = []string{"sh", "-c", script}
	return p
}

// sleeper prints its environment and stays.
const sleeper = "env; exec sleep 3600"

func (f fixture) create(pods ...*corev1.Pod) {
	f.t.Helper()
	for _, p := range pods {
		_, err := f.CreatePod(f.ctx, p)
		f.must(err)
	}
}

func (f fixture) get(name string) corev1.Pod {
	f.t.Helper()
	p, err := f.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(f.ctx, name, metav1.GetOptions{})
	f.must(err)
	return *p
}

// eventually fails the test where stack.Eventually does.
func (f fixture) eventually(limit time.Duration, condition func() (missing string)) {
	f.t.Helper()
	f.must(stack.Eventually(limit, condition))
}

func (f fixture) eventuallyIs(limit time.Duration, phase corev1.PodPhase, names ...string) {
	f.t.Helper()
	f.eventually(limit, func() string {
		for _, name := range names {
			if p := f.get(name); p.Status.Phase != phase {
				return fmt.Sprintf("pod %s is %s, want %s: %s %s", name, p.Status.Phase, phase, p.Status.Message, waiting(p))
			}
		}
		return ""
	})
}

// waiting tells what the pod's containers or its user wait for.
func waiting(p corev1.Pod) string {
	var why []string
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if w := c.State.Waiting; w != nil {
			why = append(why, fmt.Sprintf("container %s: %s %s", c.Name, w.Reason, w.Message))
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			why = append(why, c.Message)
		}
	}
	return strings.Join(why, "; ")
}

// env is what the container printed of its environment.
func (f fixture) env(name, container string) map[string]string {
	f.t.Helper()
	env := map[string]string{}
	f.eventually(20*time.Second, func() string {
		stream, err := f.Client.CoreV1().Pods(metav1.NamespaceDefault).GetLogs(name, &corev1.PodLogOptions{Container: container}).Stream(f.ctx)
		if err != nil {
			return err.Error()
		}
		defer stream.Close()
		raw, err := io.ReadAll(stream)
		if err != nil {
			return err.Error()
		}
		for line := range strings.Lines(string(raw)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				env[key] = value
			}
		}
		if len(env) == 0 {
			return "container " + container + " of " + name + " has printed nothing"
		}
		return ""
	})
	return env
}

// assignment of a container by its pod's annotation.
func (f fixture) assignment(name, container string) v1alpha1.ContainerAssignment {
	f.t.Helper()
	a, err := v1alpha1.DecodeAssignment(f.get(name).Annotations[v1alpha1.AnnotationGPUAssignment])
	f.must(err)
	for _, c := range a.Containers {
		if c.Name == container {
			return c
		}
	}
	f.t.Fatalf("the annotation of %s does not name container %s", name, container)
	return v1alpha1.ContainerAssignment{}
}

// told checks that a container's environment names the GPUs that its pod's
// annotation names.
func (f fixture) told(name, container string) {
	f.t.Helper()
	var uuids []string
	for _, g := range f.assignment(name, container).GPUs {
		uuids = append(uuids, g.UUID)
	}
	got := strings.Split(f.env(name, container)["NVIDIA_VISIBLE_DEVICES"], ",")
	slices.Sort(uuids)
	slices.Sort(got)
	if !slices.Equal(got, uuids) {
		f.t.Errorf("container %s of %s sees GPUs %q, the annotation says %q", container, name, got, uuids)
	}
}

// consistent checks that API server, ledger and kubelet agree.
func (f fixture) consistent() {
	f.t.Helper()
	source := check.Source{Client: f.Client, Ledger: f.LedgerDump, PodResources: map[string]string{node.Name: node.PodResourcesSocket()}}
	f.must(source.Settled(f.ctx, 30*time.Second))
}
