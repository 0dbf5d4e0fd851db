// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority is a certificate authority for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a authority) issue(t *testing.T, usage x509.ExtKeyUsage) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "leaf"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	raw, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func TestClientCertificates(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	file := func(name string, raw []byte) string {
		path := filepath.Join(dir, name)
		write(t, path, raw)
		return path
	}
	cert, key := ca.issue(t, x509.ExtKeyUsageServerAuth)
	files := TLSFiles{Cert: file("tls.crt", cert), Key: file("tls.key", key), ClientCA: file("ca.crt", ca.pem())}
	cfg, err := files.Config()
	if err != nil {
		t.Fatal(err)
	}
	ledger, api := newFakeLedger("n1"), newFakeAPI()
	ledger.plan("p", "n1")
	s, err := New(Options{Ledger: ledger, Binder: api, RequireClientCert: true})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := s.HTTPServer()
	srv.TLSConfig = cfg
	served := make(chan error, 1)
	go func() { served <- srv.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended with %v", err)
		}
	})

	client := func(from *authority) *http.Client {
		roots := x509.NewCertPool()
		roots.AddCert(ca.cert)
		c := &tls.Config{RootCAs: roots}
		if from != nil {
			cert, key := from.issue(t, x509.ExtKeyUsageClientAuth)
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}}
	}
	url := "https://" + listener.Addr().String()
	call := func(c *http.Client) (int, string) {
		resp, err := c.Post(url+"/bind", "application/json", strings.NewReader(bindBody("p", "n1")))
		if err != nil {
			return 0, ""
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Proto
	}
	if status, _ := call(client(nil)); status != http.StatusUnauthorized {
		t.Errorf("without a certificate: %d, want 401", status)
	}
	if status, _ := call(client(&stranger)); status != 0 {
		t.Errorf("with a stranger's certificate: %d, want a refused connection", status)
	}
	if len(api.bound) != 0 {
		t.Error("a client without our certificate bound a pod")
	}
	if status, proto := call(client(&ca)); status != 200 || proto != "HTTP/2.0" {
		t.Errorf("with our certificate: %d over %s, want 200 over HTTP/2.0", status, proto)
	}
	resp, err := client(nil).Get(url + "/healthz")
	if err != nil {
		t.Fatalf("probe without a certificate: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("probe without a certificate: %s", resp.Status)
	}
}

func write(t *testing.T, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBrokenCertificateKeepsTheLastGoodOne(t *testing.T) {
	ca := newAuthority(t)
	dir := t.TempDir()
	files := TLSFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	if _, err := files.Config(); err == nil || !strings.Contains(err.Error(), files.Cert) {
		t.Errorf("missing file: %v, want the file's name", err)
	}
	cert, key := ca.issue(t, x509.ExtKeyUsageServerAuth)
	write(t, files.Cert, cert)
	write(t, files.Key, key)
	r := &reloader{files: files}
	start := time.Unix(0, 0)
	good, err := r.current(start)
	if err != nil {
		t.Fatal(err)
	}
	write(t, files.Cert, []byte("half"))
	if got, err := r.current(start.Add(time.Minute)); err != nil || got != good {
		t.Errorf("half-written file: %v", err)
	}
	renewed, key := ca.issue(t, x509.ExtKeyUsageServerAuth)
	write(t, files.Cert, renewed)
	write(t, files.Key, key)
	if got, err := r.current(start.Add(2 * time.Minute)); err != nil || got == good {
		t.Errorf("renewed certificate was not taken up: %v", err)
	}
}
