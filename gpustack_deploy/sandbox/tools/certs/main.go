// Command certs writes the key material of one sandbox into a directory: a certificate authority, a server
// certificate for the loopback address, client certificates signed by the authority, and a service account key pair.
//
//	certs -dir DIR -clients admin=system:masters,scheduler=system:masters
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	dir := flag.String("dir", "", "directory to write into")
	clients := flag.String("clients", "", "comma separated name=group pairs, one client certificate each")
	days := flag.Int("days", 365, "days of validity")
	serviceIP := flag.String("service-ip", "10.96.0.1", "cluster IP of the kubernetes Service")
	flag.Parse()
	if err := run(*dir, *clients, *days, *serviceIP); err != nil {
		fmt.Fprintln(os.Stderr, "certs:", err)
		os.Exit(1)
	}
}

func run(dir, clients string, days int, serviceIP string) error {
	if dir == "" {
		return fmt.Errorf("-dir is needed")
	}
	authority := template("gpustack-deploy-sandbox-ca", "", days)
	authority.IsCA = true
	authority.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	caKey, err := newKey(dir, "ca.key")
	if err != nil {
		return err
	}
	if err := sign(dir, "ca.crt", authority, authority, caKey, caKey); err != nil {
		return err
	}

	server := template("gpustack-deploy-sandbox-server", "", days)
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(serviceIP)}
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	if err := issue(dir, "tls", server, authority, caKey); err != nil {
		return err
	}

	for _, pair := range strings.Split(clients, ",") {
		name, group, found := strings.Cut(pair, "=")
		if !found {
			continue
		}
		client := template(name, group, days)
		client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if err := issue(dir, name, client, authority, caKey); err != nil {
			return err
		}
	}

	accounts, err := newKey(dir, "service-accounts.key")
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&accounts.PublicKey)
	if err != nil {
		return err
	}
	return write(dir, "service-accounts.pub", "PUBLIC KEY", public, 0o644)
}

func template(name, group string, days int) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic(err)
	}
	subject := pkix.Name{CommonName: name}
	if group != "" {
		subject.Organization = []string{group}
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               subject,
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(0, 0, days),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		BasicConstraintsValid: true,
	}
}

func issue(dir, name string, leaf, authority *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := newKey(dir, name+".key")
	if err != nil {
		return err
	}
	return sign(dir, name+".crt", leaf, authority, key, caKey)
}

func newKey(dir, file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, write(dir, file, "EC PRIVATE KEY", encoded, 0o600)
}

func sign(dir, file string, leaf, authority *x509.Certificate, key, caKey *ecdsa.PrivateKey) error {
	encoded, err := x509.CreateCertificate(rand.Reader, leaf, authority, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	return write(dir, file, "CERTIFICATE", encoded, 0o644)
}

func write(dir, file, kind string, encoded []byte, mode os.FileMode) error {
	block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: encoded})
	return os.WriteFile(filepath.Join(dir, file), block, mode)
}
