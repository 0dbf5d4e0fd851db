// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fairslice/fairslice/test/bed"
)

// start returns a cluster that ends with the test.
func start(t *testing.T, options bed.Options) *bed.Cluster {
	t.Helper()
	began := time.Now()
	cluster, err := bed.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("control plane ready after %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		began := time.Now()
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
		t.Logf("cluster gone after %s", time.Since(began).Round(time.Millisecond))
	})
	return cluster
}

// eventually polls the condition, which says what is still wrong.
func eventually(t *testing.T, limit time.Duration, condition func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s: %v", limit, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestControlPlaneIsTheStockRelease(t *testing.T) {
	cluster := start(t, bed.Options{})
	version, err := cluster.Client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != "v1.37.2" || version.Major != "1" || version.Minor != "37" {
		t.Errorf("server version is %s (%s.%s), want v1.37.2 (1.37)", version.GitVersion, version.Major, version.Minor)
	}
	out, err := cluster.Kubectl(t.Context(), "version")
	if err != nil || strings.Count(out, "v1.37.2") != 2 {
		t.Errorf("kubectl version prints %q (error %v), want v1.37.2 for client and server", out, err)
	}
	resources, err := cluster.Client().Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, r := range resources.APIResources {
		kinds = append(kinds, r.Kind)
	}
	if !strings.Contains(strings.Join(kinds, " "), "MutatingAdmissionPolicy") {
		t.Errorf("admissionregistration.k8s.io/v1 serves %v, want MutatingAdmissionPolicy among them", kinds)
	}
}

func TestRightsAreThoseOfRBAC(t *testing.T) {
	cluster := start(t, bed.Options{})
	ctx := t.Context()
	nobody, err := cluster.RESTConfig("alice", "researchers")
	if err != nil {
		t.Fatal(err)
	}
	account, err := cluster.ServiceAccountConfig(ctx, "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	listPods := func(client kubernetes.Interface) error {
		_, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err
	}
	alice, robot := kubernetes.NewForConfigOrDie(nobody), kubernetes.NewForConfigOrDie(account)
	for name, client := range map[string]kubernetes.Interface{"alice": alice, "service account": robot} {
		if err := listPods(client); !apierrors.IsForbidden(err) {
			t.Errorf("%s lists pods without a role: error is %v, want forbidden", name, err)
		}
	}
	for _, subject := range []string{"--group=researchers", "--serviceaccount=default:default"} {
		args := []string{"create", "rolebinding", "view" + strings.NewReplacer("=", "", ":", "").Replace(subject), "--clusterrole=view", subject}
		if _, err := cluster.Kubectl(ctx, args...); err != nil {
			t.Fatal(err)
		}
	}
	for name, client := range map[string]kubernetes.Interface{"alice": alice, "service account": robot} {
		eventually(t, 10*time.Second, func(context.Context) error { return listPods(client) })
		_ = name
	}
}

func TestComponentsSurviveKills(t *testing.T) {
	cluster := start(t, bed.Options{})
	ctx := t.Context()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := cluster.Client().CoreV1().ConfigMaps("default").Create(ctx, configMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, component := range []string{bed.ControllerManager, bed.APIServer, bed.Etcd} {
		if err := cluster.Kill(component); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Kill(component); err == nil {
			t.Errorf("killing %s a second time: no error, want one that says it does not run", component)
		}
		began := time.Now()
		if err := cluster.Restart(ctx, component); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s serves again after %s", component, time.Since(began).Round(time.Millisecond))
		eventually(t, 10*time.Second, func(ctx context.Context) error {
			_, err := cluster.Client().CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{})
			return err
		})
	}
	err := cluster.Kill("kube-proxy")
	if err == nil || !strings.Contains(err.Error(), "etcd, kube-apiserver, kube-controller-manager") {
		t.Errorf("killing an unknown component: error %v, want the known ones named", err)
	}
}

func TestProcessesOfTheCaller(t *testing.T) {
	cluster := start(t, bed.Options{NoControllerManager: true})
	ctx := t.Context()
	sleeper := bed.Process{Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", "echo $GREETING; exec sleep 1000"}, Env: []string{"GREETING=hello"}}
	if err := cluster.StartProcess(ctx, sleeper); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, func(context.Context) error {
		log, err := cluster.Logs("sleeper")
		if err == nil && log != "hello\n" {
			err = fmt.Errorf("log of sleeper is %q, want hello", log)
		}
		return err
	})
	if err := cluster.StartProcess(ctx, sleeper); err == nil {
		t.Error("a second component of the same name started")
	}
	if err := cluster.Signal("sleeper", syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Wait(ctx, "sleeper"); err != nil {
		t.Fatal(err)
	}
	broken := bed.Process{
		Name: "broken", Path: "/bin/sh", Args: []string{"-c", "echo no such flag; exit 3"},
		Ready: func(context.Context) error { return errors.New("not yet") },
	}
	err := cluster.StartProcess(ctx, broken)
	if err == nil || !strings.Contains(err.Error(), "no such flag") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error is %v, want one with the process's last words and exit status", err)
	}
}
