// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func testServer(t testing.TB, l *fakeLedger, a *fakeAPI) *httptest.Server {
	t.Helper()
	s, err := New(Options{
		Ledger: l, Binder: a, QueueLabel: "fairslice.io/queue",
		ReservedResources: []string{"nvidia.com/gpu", "fairslice.io/gpu-slice"},
		MaxBodyBytes:      1 << 20,
		BarrierTimeout:    300 * time.Millisecond, WriteTimeout: 200 * time.Millisecond,
		RetryDelay: 5 * time.Millisecond, GangCheck: 5 * time.Millisecond, CacheWait: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(srv.Close)
	return srv
}

func post(t testing.TB, srv *httptest.Server, path, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(srv.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(raw))
}

const (
	emptyMaps = `"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}`
	planned   = `{"metadata":{"namespace":"ns","name":"p","uid":"p"},"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}`
)

// TestVerbs guards the reports R85, R86 and GPU-sharing reports 42 to 44: odd
// but legal input gets a right answer, illegal input a plain sentence.
func TestVerbs(t *testing.T) {
	pod := func(uid, rest string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"ns","name":%q,"uid":%q}%s}`, uid, uid, rest)
	}
	gpu := `,"spec":{"containers":[{"resources":{"requests":{"fairslice.io/gpu-slice":"25"}}}]}`
	tests := []struct {
		name, path, body string
		status           int
		want             string
	}{
		{
			"planned node alone is kept", "/filter", `{"Pod":` + planned + `,"NodeNames":["n1","n2"]}`, 200,
			`{"NodeNames":["n1"],` + emptyMaps,
		},
		{
			"an asked node that is not known is a retryable failure", "/filter", `{"Pod":` + planned + `,"NodeNames":["n1","n9"]}`, 200,
			`{"NodeNames":["n1"],"FailedNodes":{"n9":"unknown node yet"},"FailedAndUnresolvableNodes":{},"Error":""}`,
		},
		{
			"a waiting pod gets its reason for each node", "/filter", `{"Pod":` + pod("waits", "") + `,"NodeNames":["n1","n2"]}`, 200,
			`{"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{"n1":"queue q: limit of 1 GPU reached","n2":"queue q: limit of 1 GPU reached"},"Error":""}`,
		},
		{"no nodes in, no nodes out", "/filter", `{"Pod":` + planned + `,"NodeNames":[]}`, 200, `{"NodeNames":[],` + emptyMaps},
		{"null names are no names", "/filter", `{"Pod":` + planned + `,"NodeNames":null}`, 200, `{"NodeNames":[],` + emptyMaps},
		{"the same name twice", "/filter", `{"Pod":` + planned + `,"NodeNames":["n1","n1"]}`, 200, `{"NodeNames":["n1","n1"],` + emptyMaps},
		{
			"node objects come back as they were", "/filter", `{"Pod":` + planned + `,"Nodes":{"items":[{"metadata":{"name":"n2"}},{"metadata":{"name":"n1","x":[1, 2]}}]}}`, 200,
			`{"Nodes":{"items":[{"metadata":{"name":"n1","x":[1,2]}}]},` + emptyMaps,
		},
		{"unknown fields are passed over", "/filter", `{"New":{"a":[{}]},"Pod":` + planned + `,"NodeNames":["n1"]}`, 200, `{"NodeNames":["n1"],` + emptyMaps},
		{
			"a pod without queue or GPU passes untouched", "/filter", `{"Pod":` + pod("stranger", "") + `,"NodeNames":["n1","n9"]}`, 200,
			`{"NodeNames":["n1","n9"],` + emptyMaps,
		},
		{
			"a GPU pod that the cache lacks is told to try again", "/filter", `{"Pod":` + pod("new", gpu) + `,"NodeNames":["n1"]}`, 200,
			`{"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":"pod ns/new (UID new) has not reached the extender's cache yet; try again"}`,
		},
		{"no body", "/filter", ``, 400, `body is not JSON: EOF`},
		{"null", "/filter", `null`, 400, `body must be a JSON object`},
		{"empty object", "/filter", `{}`, 400, `field Pod is missing or null, must be the pod to place`},
		{"null pod", "/filter", `{"Pod":null}`, 400, `field Pod is missing or null, must be the pod to place`},
		{"names that are numbers", "/filter", `{"Pod":{},"NodeNames":[1]}`, 400, `field NodeNames must be a string`},
		{"two documents", "/filter", `{"Pod":{}}{}`, 400, `body must hold one JSON object and nothing after it`},
		{"body over the limit", "/filter", `{"Pod":{},"NodeNames":["` + strings.Repeat("x", 2<<20) + `"]}`, 413, `request body is over the limit of 1048576 bytes`},

		{
			"prioritize scores every asked node", "/prioritize", `{"Pod":` + planned + `,"NodeNames":["n2","n1","n9"]}`, 200,
			`[{"Host":"n2","Score":0},{"Host":"n1","Score":10},{"Host":"n9","Score":0}]`,
		},
		{"prioritize of nothing", "/prioritize", `{"Pod":` + planned + `}`, 200, `[]`},

		{
			"preempt answers with the plan's victims", "/preempt", `{"Pod":` + pod("claimant", "") + `,"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"other"}],"NumPDBViolations":0},"n2":{"Pods":[{"UID":"x"}]}}}`, 200,
			`{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"v1"},{"UID":"v2"}],"NumPDBViolations":0}}}`,
		},
		{
			"preempt in the full form", "/preempt", `{"Pod":` + pod("claimant", "") + `,"NodeNameToVictims":{"n1":{"Pods":[{"metadata":{"uid":"v1"}}],"NumPDBViolations":3}}}`, 200,
			`{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"v1"},{"UID":"v2"}],"NumPDBViolations":3}}}`,
		},
		{"preempt on nodes that the plan does not clear", "/preempt", `{"Pod":` + pod("claimant", "") + `,"NodeNameToMetaVictims":{"n2":{"Pods":[{"UID":"x"}]}}}`, 200, `{"NodeNameToMetaVictims":{}}`},
		{"preempt for a pod that needs none", "/preempt", `{"Pod":` + planned + `,"NodeNameToMetaVictims":{"n1":{"Pods":null}}}`, 200, `{"NodeNameToMetaVictims":{}}`},
		{"preempt with null entries", "/preempt", `{"Pod":` + pod("claimant", "") + `,"NodeNameToMetaVictims":{"n2":null}}`, 200, `{"NodeNameToMetaVictims":{}}`},
		{
			"preempt of a stranger keeps the dry run's choice", "/preempt", `{"Pod":` + pod("stranger", "") + `,"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"x"}],"NumPDBViolations":1},"n2":{"Pods":[]}}}`, 200,
			`{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"x"}],"NumPDBViolations":1}}}`,
		},

		{"bind without a node", "/bind", `{"PodName":"p","PodNamespace":"ns","PodUID":"p"}`, 400, `field Node is empty, must be set`},
		{
			"bind to another node than planned", "/bind", `{"PodName":"p","PodNamespace":"ns","PodUID":"p","Node":"n2"}`, 200,
			`{"Error":"pod ns/p cannot be bound to node n2: it is planned elsewhere"}`,
		},
		{
			"bind under another name", "/bind", `{"PodName":"q","PodNamespace":"ns","PodUID":"p","Node":"n1"}`, 200,
			`{"Error":"pod ns/q has not UID p, which is that of ns/p"}`,
		},
		{
			"bind of a pod that is gone", "/bind", `{"PodName":"gone","PodNamespace":"ns","PodUID":"gone","Node":"n1"}`, 200,
			`{"Error":"pod ns/gone (UID gone): pod does not exist any more"}`,
		},
		{"late repeat of a bind that the cache has dropped", "/bind", `{"PodName":"done","PodNamespace":"ns","PodUID":"done","Node":"n1"}`, 200, `{"Error":""}`},
		{
			"bind of a pod bound elsewhere", "/bind", `{"PodName":"done","PodNamespace":"ns","PodUID":"done","Node":"n2"}`, 200,
			`{"Error":"pod ns/done is bound to node n1 already, not to n2"}`,
		},
		{
			"a panic is an answer, and the process lives", "/filter", `{"Pod":` + pod("boom", "") + `}`, 200,
			`{"Error":"internal error of the fairslice extender, see its log"}`,
		},
		{
			"a panic in a bind is one", "/bind", bindBody("boom", "n1"), 200,
			`{"Error":"internal error of the fairslice extender, see its log"}`,
		},
		{
			"and the next call for the pod does not wait for it", "/bind", bindBody("boom", "n1"), 200,
			`{"Error":"internal error of the fairslice extender, see its log"}`,
		},
		{"other method", "/unknown", ``, 404, `404 page not found`},
	}
	ledger, api := newFakeLedger("n1", "n2", "n3"), newFakeAPI()
	ledger.plan("p", "n1")
	ledger.plan("waits", "")
	ledger.plan("claimant", "n1")
	ledger.victims["claimant"] = []string{"v1", "v2"}
	ledger.panicOn = "boom"
	api.gone["gone"] = true
	api.bound["done"] = "n1"
	srv := testServer(t, ledger, api)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			status, got := post(t, srv, tc.path, tc.body)
			if status != tc.status || got != tc.want {
				t.Errorf("POST %s\n got %d %s\nwant %d %s", tc.path, status, got, tc.status, tc.want)
			}
		})
	}
}

func TestNotReadyDecidesNothing(t *testing.T) {
	ledger, api := newFakeLedger("n1"), newFakeAPI()
	ledger.plan("p", "n1")
	ledger.notReady = errors.New("another replica leads")
	srv := testServer(t, ledger, api)
	status, got := post(t, srv, "/bind", bindBody("p", "n1"))
	if want := `{"Error":"the fairslice extender is not ready: another replica leads"}`; status != 200 || got != want {
		t.Errorf("bind: got %d %s, want %s", status, got, want)
	}
	if len(api.bound) != 0 {
		t.Error("a server that is not ready bound a pod")
	}
	for path, want := range map[string]int{"/readyz": 503, "/healthz": 200, "/metrics": 200} {
		resp, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

func FuzzDecoders(f *testing.F) {
	for _, seed := range []string{
		`{"Pod":` + planned + `,"NodeNames":["n1","n2"]}`,
		`{"Pod":{"metadata":{"labels":{"a":"b"}}},"Nodes":{"items":[{"metadata":{"name":"n1"}}]}}`,
		`{"Pod":null,"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}],"NumPDBViolations":-1}}}`,
		`{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n"}`, ``, `null`, `[]`, `{"Pod":{"spec":{"containers":[null]}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if args, err := decodeNodeArgs(strings.NewReader(body)); err == nil && args.Objects != nil {
			for _, name := range args.Names {
				if _, ok := args.Objects[name]; !ok {
					t.Errorf("node %q has a name but no object", name)
				}
			}
		}
		if args, err := decodePreemptArgs(strings.NewReader(body)); err == nil && args.Nodes == nil {
			t.Error("nil candidates")
		}
		if args, err := decodeBindArgs(strings.NewReader(body)); err == nil && args.UID == "" {
			t.Error("a bind without UID was accepted")
		}
	})
}

// TestFilterWaitsForTheWatch: a pod that kube-scheduler knows a moment before
// us is answered, not refused.
func TestFilterWaitsForTheWatch(t *testing.T) {
	ledger, api := newFakeLedger("n1"), newFakeAPI()
	srv := testServer(t, ledger, api)
	time.AfterFunc(5*time.Millisecond, func() { ledger.plan("p", "n1") })
	_, got := post(t, srv, "/filter", `{"Pod":`+planned+`,"NodeNames":["n1"]}`)
	if want := `{"NodeNames":["n1"],` + emptyMaps; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
