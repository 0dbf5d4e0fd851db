// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/fairslice/fairslice/test/bed/binaries"
)

// Scheduler is a stock kube-scheduler.
type Scheduler struct {
	// Name of the component; default KubeScheduler. A cluster may run several.
	Name string
	// Config is a KubeSchedulerConfiguration in YAML; empty means the
	// defaults. Its clientConnection.kubeconfig is set to the cluster's, leader
	// election is off and the client's limits are lifted unless it says
	// otherwise; all else is taken as it is.
	Config string
	// Flags are appended to the program's.
	Flags []string
}

// StartScheduler starts a kube-scheduler with the identity and the rights that
// Kubernetes ships for it.
func (c *Cluster) StartScheduler(ctx context.Context, s Scheduler) error {
	if s.Name == "" {
		s.Name = KubeScheduler
	}
	kubeconfig, err := c.Kubeconfig("system:kube-scheduler")
	if err != nil {
		return err
	}
	config, err := schedulerConfig(s.Config, kubeconfig)
	if err != nil {
		return fmt.Errorf("configuration of scheduler %s: %w", s.Name, err)
	}
	path := filepath.Join(c.folder, "etc", s.Name+".yaml")
	if err := os.WriteFile(path, config, 0o644); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	args := []string{
		"--config=" + path, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
	}
	return c.run(ctx, &process{
		name: s.Name, path: c.programs.Path(binaries.Scheduler), args: append(args, s.Flags...),
		ready: httpReady(fmt.Sprintf("https://127.0.0.1:%d/readyz", port)),
	})
}

// schedulerConfig completes a KubeSchedulerConfiguration with what depends on
// the cluster.
func schedulerConfig(text, kubeconfig string) ([]byte, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return nil, err
	}
	setDefault(config, "apiVersion", "kubescheduler.config.k8s.io/v1")
	setDefault(config, "kind", "KubeSchedulerConfiguration")
	if kind := config["kind"]; kind != "KubeSchedulerConfiguration" {
		return nil, fmt.Errorf("field kind is %v, must be KubeSchedulerConfiguration", kind)
	}
	election, err := object(config, "leaderElection")
	if err != nil {
		return nil, err
	}
	setDefault(election, "leaderElect", false)
	connection, err := object(config, "clientConnection")
	if err != nil {
		return nil, err
	}
	connection["kubeconfig"] = kubeconfig
	setDefault(connection, "qps", 5000)
	setDefault(connection, "burst", 5000)
	return yaml.Marshal(config)
}

func setDefault(m map[string]any, field string, value any) {
	if _, ok := m[field]; !ok {
		m[field] = value
	}
}

// object returns the object in a field, made if it is absent.
func object(m map[string]any, field string) (map[string]any, error) {
	if m[field] == nil {
		m[field] = map[string]any{}
	}
	o, ok := m[field].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("field %s is %v, must be an object", field, m[field])
	}
	return o, nil
}
