// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fairslice/fairslice/test/bed/binaries"
)

func (c *Cluster) startControlPlane(ctx context.Context) error {
	etcdPort, err := freePort()
	if err != nil {
		return err
	}
	if c.apiPort, err = freePort(); err != nil {
		return err
	}
	if err := c.issueIdentities(); err != nil {
		return err
	}
	admin, err := c.AdminConfig()
	if err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(admin); err != nil {
		return err
	}
	if err := c.startEtcd(ctx, etcdPort); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, etcdPort); err != nil {
		return err
	}
	if c.options.NoControllerManager {
		return nil
	}
	return c.startControllerManager(ctx)
}

// issueIdentities writes the certificates and keys that components read from
// files; all others travel in kubeconfigs.
func (c *Cluster) issueIdentities() error {
	var err error
	if c.ca, err = newAuthority("fairslice test bed"); err != nil {
		return err
	}
	if c.frontProxyCA, err = newAuthority("fairslice test bed front proxy"); err != nil {
		return err
	}
	serving, err := c.ca.server("kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1")
	if err != nil {
		return err
	}
	toKubelet, err := c.ca.client("kube-apiserver-kubelet-client", AdminGroup)
	if err != nil {
		return err
	}
	frontProxy, err := c.frontProxyCA.client("front-proxy-client")
	if err != nil {
		return err
	}
	serviceAccounts, err := c.ca.client("service-accounts")
	if err != nil {
		return err
	}
	caKey, err := c.ca.identity()
	if err != nil {
		return err
	}
	files := map[string]identity{
		"ca": caKey, "front-proxy-ca": {cert: c.frontProxyCA.pem}, "apiserver": serving,
		"to-kubelet": toKubelet, "front-proxy": frontProxy, "service-accounts": serviceAccounts,
	}
	for name, id := range files {
		if err := id.write(filepath.Join(c.folder, "pki"), name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) pki(file string) string { return filepath.Join(c.folder, "pki", file) }

func (c *Cluster) startEtcd(ctx context.Context, port int) error {
	peerPort, err := freePort()
	if err != nil {
		return err
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	peer := fmt.Sprintf("http://127.0.0.1:%d", peerPort)
	return c.run(ctx, &process{
		name: Etcd, path: c.programs.Path(binaries.Etcd),
		args: []string{
			"--name=bed", "--data-dir=" + filepath.Join(c.folder, "etcd"),
			"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=bed=" + peer,
			"--unsafe-no-fsync", "--log-level=warn", "--quota-backend-bytes=4294967296",
		},
		ready: httpReady(url + "/health"),
	})
}

func (c *Cluster) startAPIServer(ctx context.Context, etcdPort int) error {
	args := []string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", etcdPort),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.apiPort),
		// The address is loopback, which no Endpoints object may name.
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + c.pki("apiserver.crt"), "--tls-private-key-file=" + c.pki("apiserver.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.pki("service-accounts.crt"),
		"--service-account-signing-key-file=" + c.pki("service-accounts.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--kubelet-client-certificate=" + c.pki("to-kubelet.crt"), "--kubelet-client-key=" + c.pki("to-kubelet.key"),
		"--kubelet-certificate-authority=" + c.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP,Hostname",
		"--requestheader-client-ca-file=" + c.pki("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.pki("front-proxy.crt"), "--proxy-client-key-file=" + c.pki("front-proxy.key"),
		// A load test shares a few cores with the server; waiting requests are
		// to queue there, not to be refused.
		"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
	}
	return c.run(ctx, &process{
		name: APIServer, path: c.programs.Path(binaries.APIServer),
		args: append(args, c.options.APIServerFlags...),
		ready: func(ctx context.Context) error {
			_, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
			return err
		},
	})
}

func (c *Cluster) startControllerManager(ctx context.Context) error {
	config, err := c.Kubeconfig("system:kube-controller-manager")
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	return c.run(ctx, &process{
		name: ControllerManager, path: c.programs.Path(binaries.ControllerManager),
		args: []string{
			"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
			"--service-account-private-key-file=" + c.pki("service-accounts.key"), "--root-ca-file=" + c.pki("ca.crt"),
			"--cluster-signing-cert-file=" + c.pki("ca.crt"), "--cluster-signing-key-file=" + c.pki("ca.key"),
			"--use-service-account-credentials=true", "--leader-elect=false",
			"--kube-api-qps=500", "--kube-api-burst=1000",
		},
		// Pods can be made once the default namespace has its service account.
		ready: func(ctx context.Context) error {
			_, err := c.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
			if err != nil {
				return err
			}
			return httpReady(fmt.Sprintf("https://127.0.0.1:%d/healthz", port))(ctx)
		},
	})
}

// httpReady asks a component's health endpoint, whoever signed its certificate:
// most make their own at each start.
func httpReady(url string) func(context.Context) error {
	client := &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, response.Status)
		}
		return nil
	}
}
