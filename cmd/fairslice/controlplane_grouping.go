// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/fairslice/fairslice/kube"
	"github.com/fairslice/fairslice/queuecontroller/grouping"
)

// sources are what the ledger waits for before it decides.
func (p *controlPlane) sources() []string {
	if p.groupOwners {
		return append(slices.Clone(kube.Sources), kube.GroupingSource)
	}
	return kube.Sources
}

// grouper reads the owners of pods; a kind is watched once a pod has an owner of
// it.
func (p *controlPlane) grouper(config *rest.Config, dyn dynamic.Interface, ledger *kube.Ledger, registry prometheus.Registerer, log *slog.Logger) (*grouping.Resolver, error) {
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	resolver := grouping.NewResolver(grouping.Options{
		Ledger: ledger, Dynamic: dyn, Metadata: objects, Log: log,
		Mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds)),
		Rules:  grouping.Rules{QueueLabel: p.config.QueueLabel},
	})
	return resolver, resolver.Register(registry)
}
