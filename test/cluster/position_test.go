// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/kube"
	"github.com/fairslice/fairslice/test/stack"
)

// waitingLine reads the line of a queue as "position workload".
func (f fixture) waitingLine(queue string) (line []string, list kube.Pending) {
	f.t.Helper()
	f.must(f.View(f.ctx, "/queues/"+queue+"/pending", &list))
	for _, w := range list.Workloads {
		line = append(line, fmt.Sprintf("%d %s", w.Position, w.Workload))
	}
	return line, list
}

// TestPositionInTheWaitingLine: what waits is listed in the order in which it is
// served, with what it waits for; the line moves up when its head starts, and the
// order that was shown is the one in which pods start.
func TestPositionInTheWaitingLine(t *testing.T) {
	f := use(t, stack.A100("n0", 2))
	f.create(stack.Pod("runs", stack.Queue("team"), stack.Whole(2)))
	f.eventuallyRun(20*time.Second, map[string]int{"runs": 1})
	pause := func() { time.Sleep(1100 * time.Millisecond) } // creation times have whole seconds
	f.create(stack.Pod("first", stack.Queue("team"), stack.Whole(2)))
	pause()
	f.gang("pair", "team", 2)
	f.create(members("pair", "team", 2)...)
	pause()
	f.create(stack.Pod("last", stack.Queue("team"), stack.Whole(1)))
	f.create(stack.Pod("nobodys", stack.Queue("missing"), stack.Whole(1)))
	f.eventually(20*time.Second, func() string {
		line, list := f.waitingLine("team")
		if got := strings.Join(line, ", "); got != "1 first, 2 pair, 3 last" {
			return "the line is " + got
		}
		for _, w := range list.Workloads {
			if w.Reason.Code == "" || w.Since.IsZero() || w.PodsMissing != 0 {
				return fmt.Sprintf("%s lacks something: %+v", w.Workload, w)
			}
			if asks := w.Asks["gpu"]; w.Workload == "pair" && (asks.String() != "2" || len(w.Pods) != 2 || !w.Gang) {
				return fmt.Sprintf("the gang is listed as %+v", w)
			}
		}
		return ""
	})
	f.eventually(10*time.Second, func() string {
		var list kube.Pending
		if err := f.View(f.ctx, "/queues/missing/pending", &list); err != nil || list.Total != 1 || list.Exists {
			return fmt.Sprintf("the line of a queue that nobody made is %+v, %v", list, err)
		}
		return ""
	})
	var none kube.Pending
	if err := f.View(f.ctx, "/queues/elsewhere/pending", &none); err == nil || !strings.Contains(err.Error(), "queue elsewhere does not exist") {
		t.Errorf("an unknown queue gives %v", err)
	}

	out, err := f.Fairslice(f.ctx, append([]string{"queues", "team"}, f.ServerFlags()...)...)
	f.must(err)
	if !strings.Contains(out, "default/pair") || !strings.Contains(out, "gpu=2") || !strings.Contains(out, "largest free block is 0") {
		t.Errorf("fairslice queues team prints\n%s", out)
	}
	out, err = f.Fairslice(f.ctx, append([]string{"why", "last"}, f.ServerFlags()...)...)
	f.must(err)
	if !strings.Contains(out, "it is number 3 of queue team") {
		t.Errorf("fairslice why last prints\n%s", out)
	}

	f.readersOfTheLine()
	order := f.record()
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, "runs", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	f.eventuallyBound(20*time.Second, "first", 1)
	if bound := order(); strings.Join(bound, " ") != "runs first" {
		t.Errorf("%v were bound, want the head of the line alone after the pod that ran", bound)
	}
	f.eventually(10*time.Second, func() string {
		if line, _ := f.waitingLine("team"); strings.Join(line, ", ") != "1 pair, 2 last" {
			return fmt.Sprintf("the line is %v, want the two others", line)
		}
		return ""
	})
}

// readersOfTheLine: without a client certificate the token of a user of the cluster
// does, if the cluster's own rules let that user read the line.
func (f fixture) readersOfTheLine() {
	f.t.Helper()
	config, err := f.ServiceAccountConfig(f.ctx, metav1.NamespaceDefault, "default")
	f.must(err)
	ask := func(token string) (string, error) {
		args := []string{"queues", "team", "--token=" + token}
		for _, flag := range f.ServerFlags() {
			if !strings.HasPrefix(flag, "--client-") {
				args = append(args, flag)
			}
		}
		return f.Fairslice(f.ctx, args...)
	}
	if out, err := ask("rubbish"); err == nil || !strings.Contains(out, "the bearer token is not one of a user of the cluster") {
		f.t.Errorf("an unknown token gets %v, %s", err, out)
	}
	if out, err := ask(config.BearerToken); err == nil || !strings.Contains(out, "system:serviceaccount:default:default may not get queues/pending") {
		f.t.Errorf("a user without rights gets %v, %s", err, out)
	}
	bindings := f.Client.RbacV1().ClusterRoleBindings()
	_, err = bindings.Create(f.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "line-readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fairslice-pending-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "default"}},
	}, metav1.CreateOptions{})
	f.must(err)
	f.afterwards(func(ctx context.Context) error { return bindings.Delete(ctx, "line-readers", metav1.DeleteOptions{}) })
	f.eventually(10*time.Second, func() string {
		if out, err := ask(config.BearerToken); err != nil || !strings.Contains(out, "default/last") {
			return fmt.Sprintf("a user who may read the line gets %v, %s", err, out)
		}
		return ""
	})
}
