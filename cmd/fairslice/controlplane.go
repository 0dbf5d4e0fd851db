// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/extender"
	"github.com/fairslice/fairslice/kube"
	"github.com/fairslice/fairslice/queuecontroller"
)

// controlPlane is what the flags of the command set.
type controlPlane struct {
	kubeconfig   string
	listen       string
	tls          extender.TLSFiles
	insecureHTTP bool
	election     election
	evictions    bool
	groupOwners  bool
	consolidate  time.Duration
	dryRun       bool
	verbose      bool
	config       kube.Config
	barrier      time.Duration
}

func newControlPlaneCommand() *cobra.Command {
	p := controlPlane{config: kube.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "controlplane",
		Short: "Run the scheduler extender and the queue controller",
		Long: `Run the scheduler extender and the queue controller in one process.

All state is rebuilt from the API server. With --leader-elect several replicas
may run: only the one that holds the lease decides, and only it is ready.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&p.kubeconfig, "kubeconfig", "", "path of a kubeconfig file; default is the pod's service account, then $KUBECONFIG")
	f.StringVar(&p.listen, "listen", ":8443", "address of the extender, metrics and probes")
	f.StringVar(&p.tls.Cert, "tls-cert", "", "PEM file with the server's certificate")
	f.StringVar(&p.tls.Key, "tls-key", "", "PEM file with the server's key")
	f.StringVar(&p.tls.ClientCA, "client-ca", "", "PEM file with the CA of kube-scheduler's client certificate, which the verbs then require")
	f.BoolVar(&p.insecureHTTP, "insecure-http", false, "serve plain HTTP without authentication, for tests on one machine")
	f.BoolVar(&p.election.enabled, "leader-elect", false, "decide only while holding the lease")
	f.StringVar(&p.election.namespace, "namespace", "fairslice-system", "namespace of the lease and of the ConfigMaps of backlog and usage")
	f.DurationVar(&p.election.lease, "lease-duration", 15*time.Second, "how long others wait before they take over the lease")
	f.BoolVar(&p.evictions, "evictions", true, "reclaim, preempt and consolidate through the Eviction API; false only places")
	f.BoolVar(&p.groupOwners, "group-owners", true, "derive gangs from the owners of pods (Job, JobSet, PyTorchJob, RayCluster …); false knows PodGroups alone")
	f.StringVar(&p.config.GPUResource, "gpu-resource", p.config.GPUResource, "extended resource of whole GPUs")
	f.StringVar(&p.config.MIGResourcePrefix, "mig-resource-prefix", p.config.MIGResourcePrefix, "what precedes a profile of MIG instances in a resource name")
	f.StringVar(&p.config.QueueLabel, "queue-label", p.config.QueueLabel, "label that names the queue on pods and namespaces")
	f.StringVar(&p.config.DefaultQueue, "default-queue", p.config.DefaultQueue, "queue of pods that ask for GPU and name no queue")
	f.DurationVar(&p.barrier, "gang-timeout", 20*time.Second, "how long binds of a gang wait for each other; must be below the extender's httpTimeout")
	f.DurationVar(&p.consolidate, "consolidate-every", 0, "how often running pods are moved to bring free GPUs together though nobody waits for them; 0 is never")
	f.BoolVar(&p.dryRun, "consolidate-dry-run", false, "only report what --consolidate-every would move: log, metrics and GET /consolidation")
	p.sharingFlags(cmd)
	f.BoolVar(&p.verbose, "verbose", false, "log every change")
	return cmd
}

func (p *controlPlane) run(ctx context.Context) error {
	if err := p.check(); err != nil {
		return err
	}
	log := p.logger()
	config, err := p.restConfig()
	if err != nil {
		return err
	}
	client, dyn, err := clients(config)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ledger := kube.NewLedger(p.config, time.Now, log, p.sources()...)
	leader := &leadership{Ledger: ledger, standalone: !p.election.enabled}
	watcher, err := kube.NewWatcher(ledger, client, dyn, log)
	if err != nil {
		return err
	}
	controller, err := queuecontroller.New(p.controllerOptions(leader, client, dyn, registry, log))
	if err != nil {
		return err
	}
	server, err := p.server(leader, controller, client, registry, log)
	if err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	if p.groupOwners {
		grouper, err := p.grouper(config, dyn, ledger, registry, log)
		if err != nil {
			return err
		}
		watcher.UseGrouper(grouper)
		work.Go(func() error { return grouper.Run(ctx) })
	}
	listener, err := net.Listen("tcp", p.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	work.Go(func() error { return watcher.Run(ctx) })
	work.Go(func() error { return serve(ctx, server, listener) })
	work.Go(func() error { return p.election.run(ctx, client, leader, controller.Run, log) })
	log.Info("control plane started", "listen", listener.Addr().String(), "tls", !p.insecureHTTP, "leaderElection", p.election.enabled)
	return work.Wait()
}

// logger writes our lines and those of client-go.
func (p *controlPlane) logger() *slog.Logger {
	level := slog.LevelInfo
	if p.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(log)
	return log
}

func (p *controlPlane) controllerOptions(leader *leadership, client kubernetes.Interface, dyn dynamic.Interface, registry *prometheus.Registry, log *slog.Logger) queuecontroller.Options {
	options := queuecontroller.Options{
		Ledger: leader.Ledger, Client: client, Dynamic: dyn, Log: log, Registry: registry, Config: p.config,
		BacklogNamespace: p.election.namespace, Leads: leader.leads,
		ConsolidateEvery: p.consolidate, ConsolidateDryRun: p.dryRun,
	}
	if p.evictions {
		options.Evictor = queuecontroller.APIEvictor{Client: client}
	}
	return options
}

// check refuses flags that contradict each other.
func (p *controlPlane) check() error {
	if err := checkSharing(&p.config); err != nil {
		return err
	}
	switch {
	case p.consolidate != 0 && (p.consolidate < time.Second || p.consolidate > mostTime):
		return fmt.Errorf("--consolidate-every is %s; allowed are 1s to %s, and 0 for never", p.consolidate, mostTime)
	case p.dryRun && p.consolidate == 0:
		return errors.New("--consolidate-dry-run is set without --consolidate-every, which says how often")
	case p.insecureHTTP && (p.tls.Cert != "" || p.tls.Key != "" || p.tls.ClientCA != ""):
		return errors.New("--insecure-http and --tls-cert, --tls-key or --client-ca exclude each other")
	case !p.insecureHTTP && (p.tls.Cert == "" || p.tls.Key == ""):
		return errors.New("--tls-cert and --tls-key must both be set; plain HTTP needs --insecure-http")
	case len(validation.IsQualifiedName(p.config.QueueLabel)) > 0:
		return fmt.Errorf("--queue-label is %q; it must be the name of a label, such as %s", p.config.QueueLabel, v1alpha1.LabelQueue)
	case !strings.Contains(p.config.MIGResourcePrefix, "/"):
		return fmt.Errorf("--mig-resource-prefix is %q; it must be a domain, a slash and the beginning of a name, such as nvidia.com/mig-", p.config.MIGResourcePrefix)
	case p.election.lease < time.Second:
		return errors.New("--lease-duration must be 1s or more")
	case p.barrier <= 0:
		return errors.New("--gang-timeout must be above 0")
	}
	return nil
}

// restConfig finds the API server, whose priority and fairness paces our
// requests, not we.
func (p *controlPlane) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = p.kubeconfig
	config, err := rest.InClusterConfig()
	if p.kubeconfig != "" || errors.Is(err, rest.ErrNotInCluster) {
		config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	config.QPS = -1
	config.UserAgent = "fairslice-controlplane/" + version
	return config, nil
}

// clients returns one that speaks protobuf for Kubernetes' kinds and one for
// ours.
func clients(config *rest.Config) (kubernetes.Interface, dynamic.Interface, error) {
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	core := rest.CopyConfig(config)
	core.ContentType = runtime.ContentTypeProtobuf
	core.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(core)
	return client, dyn, err
}

// server serves the extender, the ledger's dump and the views of the plan.
func (p *controlPlane) server(leader *leadership, controller *queuecontroller.Controller, client kubernetes.Interface, registry *prometheus.Registry, log *slog.Logger) (*http.Server, error) {
	ext, err := extender.New(extender.Options{
		Ledger: leader, Binder: fencedBinder{extender.APIBinder{Pods: client.CoreV1()}, leader.leads}, Log: log, Registry: registry,
		ReservedResources: []string{
			p.config.GPUResource, v1alpha1.ResourceGPUSlice, v1alpha1.ResourceGPUMemory, v1alpha1.ResourceQueued,
		},
		QueueLabel:        p.config.QueueLabel,
		RequireClientCert: p.tls.ClientCA != "",
		BarrierTimeout:    p.barrier,
	})
	if err != nil {
		return nil, err
	}
	server := ext.HTTPServer()
	routes := mux.NewRouter()
	routes.Handle("/debug/ledger", p.guarded(leader.DumpHandler())).Methods(http.MethodGet)
	(&views{ready: leader.Ready, pending: leader.Pending, consolidation: controller.Consolidation, log: log}).
		add(routes, newTokenGuard(client, p.tls.ClientCA != "").wrap)
	routes.PathPrefix("/").Handler(server.Handler)
	server.Handler = routes
	if !p.insecureHTTP {
		if server.TLSConfig, err = p.tls.Config(); err != nil {
			return nil, err
		}
	}
	return server, nil
}

// guarded lets only clients in that the verbs let in: the dump names pods of
// every namespace.
func (p *controlPlane) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.tls.ClientCA != "" && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
			http.Error(w, "a client certificate signed by --client-ca is required", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serve answers until ctx is done, then lets the calls in flight end.
func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			failed <- server.ServeTLS(listener, "", "")
			return
		}
		failed <- server.Serve(listener)
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), server.WriteTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	return nil
}
