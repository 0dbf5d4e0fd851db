// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// slowAPI is an API server that takes its time.
type slowAPI struct {
	*fakeAPI
	takes time.Duration
}

func (a slowAPI) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return errNetwork{}
	case <-time.After(a.takes):
		return nil
	}
}

func (a slowAPI) Bind(ctx context.Context, pod PodKey, node string, annotations map[string]string) error {
	if err := a.wait(ctx); err != nil {
		return err
	}
	return a.fakeAPI.Bind(ctx, pod, node, annotations)
}

func (a slowAPI) BoundTo(ctx context.Context, pod PodKey) (string, error) {
	if err := a.wait(ctx); err != nil {
		return "", err
	}
	return a.fakeAPI.BoundTo(ctx, pod)
}

func slowServer(t *testing.T, l *fakeLedger, a slowAPI) *httptest.Server {
	t.Helper()
	s, err := New(Options{
		Ledger: l, Binder: a, QueueLabel: "fairslice.io/queue", MaxBodyBytes: 1 << 20,
		BarrierTimeout: 300 * time.Millisecond, WriteTimeout: 500 * time.Millisecond,
		RetryDelay: 5 * time.Millisecond, GangCheck: 5 * time.Millisecond, CacheWait: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(srv.Close)
	return srv
}

// TestFortyBindsAtOnce is GPU-sharing report 47 (HAMi #810, #1367): no lock makes the
// pods of a node wait for each other's write.
func TestFortyBindsAtOnce(t *testing.T) {
	ledger, api := newFakeLedger("n1"), slowAPI{newFakeAPI(), 100 * time.Millisecond}
	var uids []string
	for i := range 40 {
		uids = append(uids, fmt.Sprintf("p%d", i))
		ledger.plan(uids[i], "n1")
	}
	srv := slowServer(t, ledger, api)
	began := time.Now()
	for uid, got := range bindAll(t, srv.URL, "n1", uids...) {
		if got != bound {
			t.Errorf("bind of %s: %s", uid, got)
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("forty binds took %v with an API server that takes %v, at most 2s are allowed", took, api.takes)
	}
	if len(api.bound) != len(uids) {
		t.Errorf("%d pods are bound, want %d", len(api.bound), len(uids))
	}
}

// TestBindHasADeadlineOfItsOwn is GPU-sharing report 46 (Kubernetes #106361): the answer
// comes before the scheduler forgets, and says that nobody knows; the room stays taken.
func TestBindHasADeadlineOfItsOwn(t *testing.T) {
	ledger, api := newFakeLedger("n1"), slowAPI{newFakeAPI(), 35 * time.Second}
	ledger.plan("p", "n1")
	srv := slowServer(t, ledger, api)
	began := time.Now()
	status, got := post(t, srv, "/bind", bindBody("p", "n1"))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the answer took %v", took)
	}
	if want := "whether the binding was written is not known yet"; status != 200 || !strings.Contains(got, want) {
		t.Errorf("got %d %s, want %q in it", status, got, want)
	}
	if !slices.Equal(ledger.doubted, []string{"p"}) || len(ledger.forgot) > 0 {
		t.Errorf("doubted %v, forgot %v", ledger.doubted, ledger.forgot)
	}
}

// TestTwoThousandNodes is GPU-sharing report 55 (stork #99): as names or as whole
// objects, the answer comes within 200 ms.
func TestTwoThousandNodes(t *testing.T) {
	var all, names, objects []string
	for i := range 2000 {
		name := fmt.Sprintf("node-%04d", i)
		all, names = append(all, name), append(names, fmt.Sprintf("%q", name))
		objects = append(objects, fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"a":%q}}}`, name, strings.Repeat("x", 300)))
	}
	ledger := newFakeLedger(all...)
	ledger.plan("p", "node-1234")
	srv := testServer(t, ledger, newFakeAPI())
	for form, want := range map[string]string{
		`"NodeNames":[` + strings.Join(names, ",") + `]`:         `{"NodeNames":["node-1234"],` + emptyMaps,
		`"Nodes":{"items":[` + strings.Join(objects, ",") + `]}`: `{"Nodes":{"items":[` + objects[1234] + `]},` + emptyMaps,
	} {
		// The least of five: the machine may be busy with other things.
		least := time.Hour
		for range 5 {
			began := time.Now()
			status, got := post(t, srv, "/filter", `{"Pod":`+planned+`,`+form+`}`)
			least = min(least, time.Since(began))
			if status != 200 || got != want {
				t.Fatalf("%.20s…: got %d %.200s, want %.200s", form, status, got, want)
			}
		}
		if least > 200*time.Millisecond {
			t.Errorf("%.20s…: the answer took %v", form, least)
		}
	}
}
