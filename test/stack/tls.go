// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// extenderName is the name that the shipped configuration verifies.
const extenderName = "fairslice-extender." + Namespace + ".svc"

// certificates are the files that an administrator would make: an authority, a
// server certificate for the extender and a client certificate for
// kube-scheduler.
type certificates struct {
	ca, serverCert, serverKey, clientCert, clientKey string
}

// makeCertificates writes them into folder.
func makeCertificates(folder string) (certificates, error) {
	c := certificates{
		ca:         filepath.Join(folder, "ca.crt"),
		serverCert: filepath.Join(folder, "server.crt"), serverKey: filepath.Join(folder, "server.key"),
		clientCert: filepath.Join(folder, "client.crt"), clientKey: filepath.Join(folder, "client.key"),
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return c, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	authority := template("fairslice test authority")
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	raw, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	if err != nil {
		return c, err
	}
	if err := writePEM(c.ca, "CERTIFICATE", raw); err != nil {
		return c, err
	}
	server := template(extenderName)
	server.DNSNames, server.IPAddresses = []string{extenderName}, []net.IP{net.IPv4(127, 0, 0, 1)}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if err := issue(server, authority, key, c.serverCert, c.serverKey); err != nil {
		return c, err
	}
	client := template("system:kube-scheduler")
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return c, issue(client, authority, key, c.clientCert, c.clientKey)
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func issue(leaf, authority *x509.Certificate, by *ecdsa.PrivateKey, certFile, keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	raw, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), by)
	if err != nil {
		return err
	}
	if err := writePEM(certFile, "CERTIFICATE", raw); err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(keyFile, "PRIVATE KEY", der)
}

func writePEM(file, kind string, raw []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600)
}

// httpClient is a client with the rights of kube-scheduler.
func (c certificates) httpClient() (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(c.clientCert, c.clientKey)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(c.ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(raw)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, ServerName: extenderName, Certificates: []tls.Certificate{pair},
	}}}, nil
}
