// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fairslice/fairslice/deviceplugin/cdispec"
	"github.com/fairslice/fairslice/deviceplugin/enforce"
	"github.com/fairslice/fairslice/deviceplugin/kubelet"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/nvml"
	"github.com/fairslice/fairslice/deviceplugin/plugin"
	"github.com/fairslice/fairslice/deviceplugin/pool"
	"github.com/fairslice/fairslice/deviceplugin/publish"
	"github.com/fairslice/fairslice/deviceplugin/usage"
)

// Run is the device plugin of one node. It returns nil when ctx is done, and an
// error where only a restart or a person can help: bad options, no driver, another
// plugin that serves our resources, GPUs that appeared. An API server or a kubelet
// that is away is waited for.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	log := o.Log.With("node", o.NodeName)
	lib, err := openLibrary(&o)
	if err != nil {
		return err
	}
	if o.Library == nil {
		defer func() { _ = lib.Close() }()
	}
	a := &agent{o: o, log: log, names: o.names(), layer: enforce.None{}, directory: usage.NewDirectory()}
	if a.client, err = connect(&o); err != nil {
		return err
	}
	node, err := a.awaitNode(ctx, a.client)
	if err != nil || node == nil {
		return err
	}
	if err := a.openCards(lib, node); err != nil {
		return err
	}
	if a.resources, err = kubelet.DialPodResources(o.PodResourcesSocket); err != nil {
		return err
	}
	defer func() { _ = a.resources.Close() }()
	if err := a.checkConflict(ctx, node); err != nil || ctx.Err() != nil {
		return err
	}
	err = a.serve(ctx, node, lib)
	if ctx.Err() != nil && !errors.Is(err, ErrGPUsChanged) {
		return nil
	}
	return err
}

// openCards reads the GPUs and makes what stands on them.
func (a *agent) openCards(lib nvml.Library, node *corev1.Node) error {
	a.sizing = a.o.sizing(node, lib.Simulated())
	gpus, lost := lib.GPUs()
	a.present = present(gpus)
	var err error
	if a.cards, a.names, err = readCards(gpus, lost, &a.o, a.sizing, a.log); err != nil {
		return err
	}
	a.registrations = make([]atomic.Int64, len(a.names))
	if err := a.openBook(); err != nil {
		return err
	}
	if err := a.chooseLayer(lib); err != nil {
		return err
	}
	a.vitals = newVitals(lib, &a.o, a.book, a.cards, a.log)
	a.overseer = newOverseer(a, lib)
	return a.writeCDI(lib.Simulated())
}

// openBook makes the pool and the book of the cards.
func (a *agent) openBook() error {
	accounts := make([]pool.GPU, 0, len(a.cards))
	for _, c := range a.cards {
		accounts = append(accounts, c.account)
		a.log.Info("serving a GPU", "uuid", c.account.UUID, "id", c.account.ID, "model", c.model(), "memoryMiB", c.account.MemoryMiB)
	}
	var err error
	if a.pool, err = pool.New(accounts); err != nil {
		return err
	}
	own, err := pool.New(accounts)
	if err != nil {
		return err
	}
	a.book = match.NewBook(match.Config{Node: a.o.NodeName, Names: a.names, AllowUnplanned: a.o.AllowUnplanned}, own)
	return nil
}

func (a *agent) writeCDI(simulated bool) error {
	if !slices.Contains(a.o.DeviceLists, plugin.ListCDI) {
		return nil
	}
	devRoot := a.o.DevRoot
	if simulated {
		devRoot = ""
	}
	devices, err := a.cdiDevices(simulated)
	if err != nil {
		return err
	}
	return cdispec.Write(a.o.CDIDir, devRoot, devices)
}

func connect(o *Options) (kubernetes.Interface, error) {
	if o.Client != nil {
		return o.Client, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the client configuration: %w", err)
	}
	cfg.UserAgent = "fairslice-device-plugin"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the API client: %w", err)
	}
	return client, nil
}

// checkConflict looks whether another plugin serves our resources on the node.
func (a *agent) checkConflict(ctx context.Context, node *corev1.Node) error {
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	known, err := a.resources.Devices(ask)
	if err != nil {
		a.log.Info("the kubelet does not answer yet, looking for other device plugins on the node object only", "reason", err)
		known = nil
	}
	return conflict(node, known, a.names, a.pool)
}

// awaitNode waits for the API server to show our node; it returns nil when ctx is done first.
func (a *agent) awaitNode(ctx context.Context, client kubernetes.Interface) (*corev1.Node, error) {
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		node, err := client.CoreV1().Nodes().Get(ctx, a.o.NodeName, metav1.GetOptions{})
		switch {
		case err == nil:
			return node, nil
		case ctx.Err() != nil:
			return nil, nil //nolint:nilerr // told to end while waiting, which is no failure
		case apierrors.IsForbidden(err):
			return nil, fmt.Errorf("reading node %s: %w", a.o.NodeName, err)
		}
		a.log.Warn("cannot read this node from the API server, waiting", "retry", wait, "error", err)
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// serve runs everything. The order matters: nothing is advertised before the book
// knows what is held.
func (a *agent) serve(ctx context.Context, found *corev1.Node, lib nvml.Library) error {
	client := a.client
	group, ctx := errgroup.WithContext(ctx)
	synced := a.followPods(ctx, client)
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return nil
	}
	if err := a.compare(ctx); err != nil {
		a.log.Info("no records of the kubelet yet", "reason", err)
	}
	events, endEvents := startEvents(client)
	defer endEvents()
	a.events, a.vitals.told = events, a.tellHealth
	a.vitals.probeAll()
	a.tellForeignAtStart()
	a.tellVisibility()
	a.onNode(found)
	a.followNode(ctx, client)
	changed := a.book.Changed
	node := &publish.Node{
		Client: client, Name: a.o.NodeName, Log: a.log, State: a.nodeState, Changed: changed,
		Refresh: time.Minute, Settle: settleTime, WakeEvery: time.Second,
	}
	a.pods = &publish.Pods{Client: client, Log: a.log, Corrections: a.book.Corrections, Changed: changed, Settle: settleTime}
	inBackground := func(run func(context.Context)) {
		group.Go(func() error { run(ctx); return nil })
	}
	inBackground(a.vitals.run)
	inBackground(a.overseer.run)
	inBackground(a.reconcile)
	for _, run := range a.background {
		inBackground(run)
	}
	inBackground(node.Run)
	inBackground(a.pods.Run)
	group.Go(func() error { return a.rescan(ctx, lib) })
	group.Go(func() error { return a.serveMetrics(ctx) })
	group.Go(func() error { return plugin.Run(ctx, a.pluginConfig()) })
	return group.Wait()
}

func (a *agent) pluginConfig() plugin.Config {
	index := map[string]int{}
	for _, c := range a.cards {
		index[c.account.UUID] = c.hardware.Index
	}
	return plugin.Config{
		Dir: a.o.PluginDir, Names: a.names, Book: a.book,
		Respond: plugin.Responder{Lists: a.o.DeviceLists, Names: a.names, Index: index, Layer: a.layer, Processes: a.declared.of},
		Settle:  a.settle, Identify: a.identify, Start: a.start,
		InformerWait: a.o.InformerWait, Poll: time.Second, Now: time.Now, Log: a.log,
		Registered: func(resource string) {
			if k, ours := a.names.Kind(resource); ours {
				a.registrations[k].Add(1)
			}
		},
	}
}

// followPods starts the informer of this node's pods.
func (a *agent) followPods(ctx context.Context, client kubernetes.Interface) cache.InformerSynced {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(l *metav1.ListOptions) {
			l.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", a.o.NodeName).String()
		}),
		informers.WithTransform(func(obj any) (any, error) {
			if p, isPod := obj.(*corev1.Pod); isPod {
				p.ManagedFields = nil
			}
			return obj, nil
		}))
	informer := factory.Core().V1().Pods().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { a.onPod(obj) },
		UpdateFunc: func(before, obj any) {
			// After a gap in the watch it may be another pod of the same name.
			if old, now := uidOf(before), uidOf(obj); old != now {
				a.forgetPod(old)
			}
			a.onPod(obj)
		},
		DeleteFunc: func(obj any) {
			// A missed deletion comes as a tombstone (HAMi #2923).
			if gone, missed := obj.(cache.DeletedFinalStateUnknown); missed {
				obj = gone.Obj
			}
			a.forgetPod(uidOf(obj))
		},
	})
	factory.Start(ctx.Done())
	return func() bool { return err == nil && registration.HasSynced() }
}

// uidOf a pod, "" for anything else.
func uidOf(obj any) string {
	if p, isPod := obj.(*corev1.Pod); isPod {
		return string(p.UID)
	}
	return ""
}

func (a *agent) forgetPod(uid string) {
	a.book.Delete(uid)
	a.directory.Delete(uid)
	a.declared.remove(uid)
}

func (a *agent) onPod(obj any) {
	if p, isPod := obj.(*corev1.Pod); isPod {
		a.directory.Upsert(p)
		a.declared.upsert(p)
		a.book.Upsert(p)
	}
}
