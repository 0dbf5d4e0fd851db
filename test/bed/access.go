// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fairslice/fairslice/test/bed/binaries"
)

// Admin is a user that may do everything: a member of AdminGroup.
const (
	Admin      = "admin"
	AdminGroup = "system:masters"
)

// URL of the API server.
func (c *Cluster) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.apiPort) }

// Client has all rights.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// AdminConfig has all rights.
func (c *Cluster) AdminConfig() (*rest.Config, error) { return c.RESTConfig(Admin, AdminGroup) }

// RESTConfig authenticates as the user with the groups, by a client
// certificate. What the user may do is for RBAC to say: nothing, unless a role
// is bound to the user or a group.
func (c *Cluster) RESTConfig(user string, groups ...string) (*rest.Config, error) {
	id, err := c.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	config := c.baseConfig(user)
	config.CertData, config.KeyData = id.cert, id.key
	return config, nil
}

// ServiceAccountConfig authenticates as a service account that exists, by a
// token of an hour, as a pod of that account would.
func (c *Cluster) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	request := &authenticationv1.TokenRequest{}
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make a token for service account %s/%s: %w", namespace, name, err)
	}
	config := c.baseConfig(name)
	config.BearerToken = token.Status.Token
	return config, nil
}

func (c *Cluster) baseConfig(agent string) *rest.Config {
	qps := c.options.ClientQPS
	if qps == 0 {
		qps = -1
	}
	return &rest.Config{
		Host:            c.URL(),
		UserAgent:       "fairslice-bed/" + agent,
		QPS:             qps,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.pem},
	}
}

// Kubeconfig writes a kubeconfig file for the user with the groups (see
// RESTConfig) and returns its path.
func (c *Cluster) Kubeconfig(user string, groups ...string) (string, error) {
	config, err := c.RESTConfig(user, groups...)
	if err != nil {
		return "", err
	}
	return c.WriteKubeconfig(user, config)
}

// WriteKubeconfig writes what a RESTConfig or ServiceAccountConfig holds to a
// kubeconfig file of that name in the cluster's folder and returns its path.
func (c *Cluster) WriteKubeconfig(name string, config *rest.Config) (string, error) {
	file := clientcmdapi.NewConfig()
	file.Clusters["bed"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["user"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	file.Contexts["bed"] = &clientcmdapi.Context{Cluster: "bed", AuthInfo: "user"}
	file.CurrentContext = "bed"
	path := filepath.Join(c.folder, "etc", strings.NewReplacer(":", "-", "/", "-").Replace(name)+".kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", name, err)
	}
	return path, nil
}

// Kubectl runs kubectl as Admin and returns what it printed; the error holds
// its complaint.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	config, err := c.Kubeconfig(Admin, AdminGroup)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, c.programs.Path(binaries.Kubectl), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// KubectlPath is the path of the kubectl that matches the cluster.
func (c *Cluster) KubectlPath() string { return c.programs.Path(binaries.Kubectl) }
