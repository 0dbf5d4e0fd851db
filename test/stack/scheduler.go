// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/fairslice/fairslice/test/bed"
)

// shippedScheduler is the configuration for the default scheduler that a user
// would take.
const shippedScheduler = "scheduler/default/scheduler-config.yaml"

// startScheduler starts kube-scheduler with the shipped configuration, changed
// only in where the extender and the certificates are, and in having no lease: a
// killed scheduler's successor need not wait for it to expire.
func (s *Stack) startScheduler(ctx context.Context) error {
	text, err := s.readManifest(shippedScheduler)
	if err != nil {
		return err
	}
	config, err := s.pointAtExtender(text)
	if err != nil {
		return fmt.Errorf("%s: %w", shippedScheduler, err)
	}
	return s.StartScheduler(ctx, bed.Scheduler{Config: config, Flags: s.options.SchedulerFlags})
}

func (s *Stack) pointAtExtender(text string) (string, error) {
	var config map[string]any
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return "", err
	}
	extenders, _ := config["extenders"].([]any)
	if len(extenders) != 1 {
		return "", fmt.Errorf("it lists %d extenders, want 1", len(extenders))
	}
	extender, ok := extenders[0].(map[string]any)
	if !ok {
		return "", fmt.Errorf("its extender is no object")
	}
	extender["urlPrefix"] = s.ExtenderURL()
	extender["tlsConfig"] = map[string]any{
		"serverName": extenderName, "caFile": s.certs.ca, "certFile": s.certs.clientCert, "keyFile": s.certs.clientKey,
	}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	delete(config, "clientConnection")
	raw, err := yaml.Marshal(config)
	return string(raw), err
}
