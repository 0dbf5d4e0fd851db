// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fairslice/fairslice/kube"
)

func bindBody(uid, node string) string {
	return fmt.Sprintf(`{"PodName":%q,"PodNamespace":"ns","PodUID":%q,"Node":%q}`, uid, uid, node)
}

const bound = `{"Error":""}`

func TestBindWritesNodeAndAssignmentAtOnce(t *testing.T) {
	ledger, api := newFakeLedger("n1"), newFakeAPI()
	ledger.plan("p", "n1")
	srv := testServer(t, ledger, api)
	for range 2 { // the repeat is a success without a second binding
		if _, got := post(t, srv, "/bind", bindBody("p", "n1")); got != bound {
			t.Fatalf("bind: %s", got)
		}
	}
	if api.bound["p"] != "n1" || api.annotations["p"] != "p on n1" {
		t.Errorf("bound to %q with %q", api.bound["p"], api.annotations["p"])
	}
	if !ledger.pods["p"].Bound {
		t.Error("the ledger was not told of the binding")
	}
}

// TestBindErrors: what the API server does, what kube-scheduler and the ledger
// are told.
func TestBindErrors(t *testing.T) {
	refused := errors.New(`admission webhook "policy" denied the request`)
	tests := []struct {
		name          string
		fail          func(uid string, try int) (error, bool)
		down          bool
		want          string // in Error
		bound, forgot bool
		doubted       bool
	}{
		{
			name: "a network error is tried again", bound: true,
			fail: func(_ string, try int) (error, bool) {
				if try < 3 {
					return errNetwork{}, false
				}
				return nil, false
			},
		},
		{
			name: "the answer was lost after the write", bound: true,
			fail: func(string, int) (error, bool) { return errNetwork{}, true },
		},
		{
			name: "a refusal is final and its text reaches the user", forgot: true, want: refused.Error(),
			fail: func(string, int) (error, bool) { return refused, false },
		},
		{
			name: "a stopped API server leaves the room assumed", down: true, doubted: true,
			want: "whether the binding was written is not known yet",
		},
		{
			name: "failing to the end gives the room back", forgot: true, want: "connection refused",
			fail: func(string, int) (error, bool) { return errNetwork{}, false },
		},
		{
			name: "a write that ran out of time may land yet", doubted: true,
			want: "whether the binding was written is not known yet",
			fail: func(string, int) (error, bool) { return apierrors.NewTimeoutError("request timed out", 0), false },
		},
		{
			name: "also one of which the storage ran out of time", doubted: true,
			want: "whether the binding was written is not known yet",
			fail: func(string, int) (error, bool) {
				return apierrors.NewConflict(corev1.Resource("pods/binding"), "p", errors.New("etcdserver: request timed out")), false
			},
		},
		{
			name: "also if the next one was refused", doubted: true,
			want: "whether the binding was written is not known yet",
			fail: func(_ string, try int) (error, bool) {
				if try == 1 {
					return &net.OpError{Op: "read", Err: syscall.ECONNRESET}, false
				}
				return refused, false
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			ledger, api := newFakeLedger("n1"), newFakeAPI()
			ledger.plan("p", "n1")
			api.fail, api.down = tc.fail, tc.down
			srv := testServer(t, ledger, api)
			status, got := post(t, srv, "/bind", bindBody("p", "n1"))
			if status != 200 {
				t.Errorf("status %d", status)
			}
			if tc.want == "" && got != bound || !strings.Contains(strings.ReplaceAll(got, `\"`, `"`), tc.want) {
				t.Errorf("got %s, want %q in it", got, tc.want)
			}
			if (api.bound["p"] != "") != tc.bound || (len(ledger.forgot) > 0) != tc.forgot || (len(ledger.doubted) > 0) != tc.doubted {
				t.Errorf("bound %v forgot %v doubted %v", api.bound, ledger.forgot, ledger.doubted)
			}
		})
	}
}

// bindAll calls bind for all pods at the same time.
func bindAll(t *testing.T, url string, node string, uids ...string) map[string]string {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := map[string]string{}
	for _, uid := range uids {
		wg.Go(func() {
			resp, err := http.Post(url+"/bind", "application/json", strings.NewReader(bindBody(uid, node)))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			buf := make([]byte, 4096)
			n, _ := resp.Body.Read(buf)
			mu.Lock()
			got[uid] = strings.TrimSpace(string(buf[:n]))
			mu.Unlock()
		})
	}
	wg.Wait()
	return got
}

func gangOf(n int) (uids []string) {
	for i := range n {
		uids = append(uids, fmt.Sprintf("g%d", i))
	}
	return uids
}

func TestGangBindsWhole(t *testing.T) {
	ledger, api := newFakeLedger("n1"), newFakeAPI()
	ledger.planGang("ns/gang", 8, "n1", gangOf(8)...)
	srv := testServer(t, ledger, api)
	for uid, got := range bindAll(t, srv.URL, "n1", gangOf(8)...) {
		if got != bound {
			t.Errorf("%s: %s", uid, got)
		}
	}
	if len(api.bound) != 8 {
		t.Errorf("%d of 8 bound", len(api.bound))
	}
}

func TestGangShortOfOneBindsNobody(t *testing.T) {
	ledger, api := newFakeLedger("n1"), newFakeAPI()
	ledger.planGang("ns/gang", 8, "n1", gangOf(8)...)
	srv := testServer(t, ledger, api)
	for uid, got := range bindAll(t, srv.URL, "n1", gangOf(7)...) {
		if !strings.Contains(got, "gang ns/gang") || !strings.Contains(got, "of the 8 members") {
			t.Errorf("%s: %s", uid, got)
		}
	}
	if api.writes != 0 {
		t.Errorf("%d bindings were written", api.writes)
	}
	for uid, v := range ledger.pods {
		if v.Assumed {
			t.Errorf("%s is still assumed", uid)
		}
	}
}

// TestMemberThatGivesUpIsNotCounted by one that arrives before the ledger knows.
func TestMemberThatGivesUpIsNotCounted(t *testing.T) {
	ledger, api := newFakeLedger("n1"), newFakeAPI()
	ledger.planGang("ns/gang", 2, "n1", gangOf(2)...)
	srv := testServer(t, ledger, api)
	answer := make(chan string, 1)
	ledger.onForget = func(uid string) {
		if uid != "g0" {
			return
		}
		go func() { _, got := post(t, srv, "/bind", bindBody("g1", "n1")); answer <- got }()
		time.Sleep(100 * time.Millisecond) // g1 would pass by now
	}
	if _, got := post(t, srv, "/bind", bindBody("g0", "n1")); got == bound {
		t.Fatal("g0 was bound alone")
	}
	if got := <-answer; got == bound || len(api.bound) > 0 {
		t.Errorf("g0 gave up and g1 was bound without it: %s", got)
	}
}

func TestGangGivesUpAtOnceWhenAMemberIsDeleted(t *testing.T) {
	ledger, api := newFakeLedger("n1"), newFakeAPI()
	ledger.planGang("ns/gang", 3, "n1", gangOf(3)...)
	srv := testServer(t, ledger, api)
	time.AfterFunc(50*time.Millisecond, func() { ledger.remove("g2") })
	started := time.Now()
	for uid, got := range bindAll(t, srv.URL, "n1", "g0", "g1") {
		if !strings.Contains(got, errGangShort.Error()) {
			t.Errorf("%s: %s", uid, got)
		}
	}
	if waited := time.Since(started); waited > 250*time.Millisecond {
		t.Errorf("the others waited %s, until the barrier's own time-out", waited)
	}
}

func TestReplacementOfOneMemberNeedsNoOthers(t *testing.T) {
	ledger, api := newFakeLedger("n1"), newFakeAPI()
	ledger.planGang("ns/gang", 3, "n1", gangOf(3)...)
	ledger.set("g0", func(v *kube.PodView) { v.Bound = true })
	ledger.set("g1", func(v *kube.PodView) { v.Bound = true })
	srv := testServer(t, ledger, api)
	if got := bindAll(t, srv.URL, "n1", "g2"); got["g2"] != bound {
		t.Error(got)
	}
}

// TestSchedulerKilledAtTheBarrier: a caller that hangs up takes its member out,
// and its repeat after a restart joins the others.
func TestSchedulerKilledAtTheBarrier(t *testing.T) {
	ledger, api := newFakeLedger("n1"), newFakeAPI()
	ledger.planGang("ns/gang", 2, "n1", gangOf(2)...)
	srv := testServer(t, ledger, api)
	ctx, kill := context.WithCancel(t.Context())
	go func() {
		ledger.until(t, func() bool { return ledger.pods["g0"].Assumed })
		kill()
	}()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/bind", strings.NewReader(bindBody("g0", "n1")))
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the first call should hang until killed: %v", err)
	}
	ledger.until(t, func() bool { return !ledger.pods["g0"].Assumed })
	for uid, got := range bindAll(t, srv.URL, "n1", gangOf(2)...) {
		if got != bound {
			t.Errorf("%s: %s", uid, got)
		}
	}
}

// TestTwoSchedulersBindOnce: the same bind twice at a time is one write.
func TestTwoSchedulersBindOnce(t *testing.T) {
	ledger, api := newFakeLedger("n1", "n2"), newFakeAPI()
	ledger.planGang("ns/gang", 2, "n1", gangOf(2)...)
	srv := testServer(t, ledger, api)
	got := make(chan string, 2)
	for range 2 {
		go func() { _, body := post(t, srv, "/bind", bindBody("g0", "n1")); got <- body }()
	}
	time.Sleep(50 * time.Millisecond)
	if _, body := post(t, srv, "/bind", bindBody("g0", "n2")); !strings.Contains(body, "is being bound to node n1, not to n2") {
		t.Errorf("a bind to another node: %s", body)
	}
	post(t, srv, "/bind", bindBody("g1", "n1"))
	for range 2 {
		if body := <-got; body != bound {
			t.Error(body)
		}
	}
	if api.writes != 2 {
		t.Errorf("%d writes for two pods", api.writes)
	}
}
