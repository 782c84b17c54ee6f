package main

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	xdg "github.com/xdg-go/scram"
)

// security is what a listener with SASL_SSL asks for: COMPAT_SECURITY as JSON, or nothing at all.
type security struct {
	Mechanism string `json:"mechanism"`
	Username  string `json:"username"`
	Password  string `json:"password"` // the token for OAUTHBEARER
	Authority string `json:"ca"`       // a PEM file
}

func readSecurity() (*security, *tls.Config, error) {
	text := os.Getenv("COMPAT_SECURITY")
	if text == "" {
		return nil, nil, nil
	}
	given := &security{}
	if err := json.Unmarshal([]byte(text), given); err != nil {
		return nil, nil, err
	}
	pem, err := os.ReadFile(given.Authority)
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("%s has no certificate", given.Authority)
	}
	return given, &tls.Config{RootCAs: roots}, nil
}

// franzOptions are those of every client of franz-go: where to connect, and how.
func franzOptions(bootstrap []string, more ...kgo.Opt) ([]kgo.Opt, error) {
	options := append([]kgo.Opt{kgo.SeedBrokers(bootstrap...)}, more...)
	given, config, err := readSecurity()
	if err != nil || given == nil {
		return options, err
	}
	options = append(options, kgo.DialTLSConfig(config))
	switch given.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: given.Username, Pass: given.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: given.Username, Pass: given.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: given.Username, Pass: given.Password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: given.Password}.AsMechanism()))
	default:
		return nil, fmt.Errorf("no mechanism %q", given.Mechanism)
	}
	return options, nil
}

func newKgo(bootstrap []string, more ...kgo.Opt) (*kgo.Client, error) {
	options, err := franzOptions(bootstrap, more...)
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(options...)
}

// secureSarama sets what the listener asks for; a wrong COMPAT_SECURITY is for the test's author to see.
func secureSarama(config *sarama.Config) *sarama.Config {
	given, tlsConfig, err := readSecurity()
	if err != nil {
		panic(err)
	}
	if given == nil {
		return config
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = true, tlsConfig
	config.Net.SASL.Enable, config.Net.SASL.Mechanism = true, sarama.SASLMechanism(given.Mechanism)
	config.Net.SASL.User, config.Net.SASL.Password = given.Username, given.Password
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		hash := xdg.HashGeneratorFcn(sha512.New)
		if given.Mechanism == "SCRAM-SHA-256" {
			hash = sha256.New
		}
		return &saramaScram{hash: hash}
	}
	config.Net.SASL.TokenProvider = saramaToken(given.Password)
	if given.Mechanism == sarama.SASLTypeGSSAPI {
		config.Net.SASL.GSSAPI = kerberos(given)
	}
	return config
}

// kerberos is a login by keys: the user is a whole principal, the password names the file.
func kerberos(given *security) sarama.GSSAPIConfig {
	user, realm, _ := strings.Cut(given.Username, "@")
	return sarama.GSSAPIConfig{
		AuthType:           sarama.KRB5_KEYTAB_AUTH,
		KeyTabPath:         given.Password,
		KerberosConfigPath: os.Getenv("KRB5_CONFIG"),
		ServiceName:        "kafka",
		Username:           user,
		Realm:              realm,
		DisablePAFXFAST:    true,
	}
}

// saramaScram joins sarama and the SCRAM library that its own examples use: it has none itself.
type saramaScram struct {
	hash         xdg.HashGeneratorFcn
	conversation *xdg.ClientConversation
}

func (s *saramaScram) Begin(user, password, authzID string) error {
	client, err := s.hash.NewClient(user, password, authzID)
	if err == nil {
		s.conversation = client.NewConversation()
	}
	return err
}

func (s *saramaScram) Step(challenge string) (string, error) { return s.conversation.Step(challenge) }

func (s *saramaScram) Done() bool { return s.conversation.Done() }

type saramaToken string

func (s saramaToken) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(s)}, nil
}
