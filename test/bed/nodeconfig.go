// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"
	"maps"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// noNetwork satisfies containerd, which reports a node without any network
// configuration as not ready; only pods without hostNetwork would run the
// plugin, which does not exist.
const noNetwork = `{"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "none"}]}`

// containerdConfig keeps every file of containerd in the node's folder, or
// below a path that is bound there.
func (n *Node) containerdConfig(runc string) string {
	return fmt.Sprintf(`version = 3
root = %[1]q
state = %[2]q
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = %[3]q

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = %[4]q

[plugins."io.containerd.cri.v1.runtime"]
  # The test bed may run where CAP_SYS_RESOURCE is missing.
  restrict_oom_score_adj = true
  enable_cdi = true
  cdi_spec_dirs = ["/var/run/cdi"]

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = [%[5]q]
  conf_dir = %[5]q

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = %[6]q
  SystemdCgroup = false
`, filepath.Join(n.folder, "containerd"), "/run/containerd", n.ContainerdSocket(), pauseImage, filepath.Join(n.folder, "cni"), runc)
}

// kubeletConfig is the KubeletConfiguration, in which the fields of the
// caller's text replace ours.
func (n *Node) kubeletConfig(text string) (map[string]any, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	healthzPort, err := freePort()
	if err != nil {
		return nil, err
	}
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": n.Address, "port": port, "readOnlyPort": 0,
		"healthzBindAddress": "127.0.0.1", "healthzPort": healthzPort,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true},
			"x509": map[string]any{"clientCAFile": n.cluster.pki("ca.crt")},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"tlsCertFile":   filepath.Join(n.folder, "kubelet.crt"), "tlsPrivateKeyFile": filepath.Join(n.folder, "kubelet.key"),
		"containerRuntimeEndpoint": "unix://" + n.ContainerdSocket(),
		"cgroupDriver":             "cgroupfs", "cgroupRoot": n.CgroupRoot(), "failCgroupV1": false,
		"localStorageCapacityIsolation": false, "failSwapOn": false, "makeIPTablesUtilChains": false,
		"volumePluginDir": "/var/lib/kubelet/volume-plugins", "resolvConf": "",
		// A developer's full disk is no reason to evict a test's pods.
		"evictionHard": map[string]any{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		// Quicker than in production, where thousands of kubelets share one
		// API server.
		"kubeAPIQPS": 500, "kubeAPIBurst": 1000, "registryPullQPS": 0, "eventRecordQPS": 0,
		"syncFrequency": "10s", "nodeStatusUpdateFrequency": "4s",
	}
	replaced := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &replaced); err != nil {
		return nil, fmt.Errorf("configuration of the kubelet: %w", err)
	}
	maps.Copy(config, replaced)
	config["healthzPort"] = healthzPort
	return config, nil
}
