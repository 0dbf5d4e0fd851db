// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// serverFlags say where the control plane is and who asks.
type serverFlags struct{ url, name, ca, cert, key, token string }

func (f *serverFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "server", os.Getenv("FAIRSLICE_SERVER"), "address of the control plane, such as https://127.0.0.1:8443; default $FAIRSLICE_SERVER")
	cmd.Flags().StringVar(&f.name, "server-name", "fairslice-extender.fairslice-system.svc", "name in the control plane's certificate")
	cmd.Flags().StringVar(&f.ca, "server-ca", "", "PEM file with the CA of the control plane's certificate; default the machine's")
	cmd.Flags().StringVar(&f.cert, "client-cert", "", "PEM file with a client certificate that the control plane's --client-ca signed")
	cmd.Flags().StringVar(&f.token, "token", "", "bearer token of a user of the cluster, in place of a client certificate, as kubectl create token NAME prints")
	cmd.Flags().StringVar(&f.key, "client-key", "", "PEM file with the key of the client certificate")
}

// errNoServer tells how to reach what the API server does not have.
var errNoServer = errors.New("--server is not set: this is read from the control plane, for instance through " +
	"`kubectl -n fairslice-system port-forward service/fairslice-extender 8443:443` at --server=https://127.0.0.1:8443")

// get reads a view of the control plane.
func (f *serverFlags) get(ctx context.Context, path string, into any) error {
	if f.url == "" {
		return errNoServer
	}
	base, err := url.Parse(f.url)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return fmt.Errorf("--server is %q; it must be an address such as https://127.0.0.1:8443", f.url)
	}
	client, err := f.client()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(f.url, "/")+path, nil)
	if err != nil {
		return err
	}
	if f.token != "" {
		req.Header.Set("Authorization", "Bearer "+f.token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the control plane: %w", err)
	}
	defer resp.Body.Close()
	const most = 256 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	switch {
	case err != nil:
		return fmt.Errorf("read the control plane's answer: %w", err)
	case resp.StatusCode != http.StatusOK:
		return errors.New(strings.TrimSpace(string(body)))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer of %s is not the control plane's: %w", f.url, err)
	}
	return nil
}

func (f *serverFlags) client() (*http.Client, error) {
	config := &tls.Config{ServerName: f.name, MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		raw, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--server-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("--server-ca: %s holds no PEM certificate", f.ca)
		}
	}
	if f.cert != "" || f.key != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--client-cert and --client-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: config}}, nil
}
