package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// noCertificate is said of a server that asks who connects.
const noCertificate = " wants a certificate of its clients: cert and key name the PEM files of one that it takes"

// Explained adds to why a server cannot be asked which field says otherwise.
func Explained(err error, overTLS, sentinel bool) error {
	if err == nil || errors.Is(err, redis.Nil) { // a server that has no such key
		return err
	}
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		record    tls.RecordHeaderError
		timeout   interface{ Timeout() bool }
	)
	whose, atSentinels := "the server", ""
	if sentinel {
		whose, atSentinels = "a Sentinel, or the server it names,", " (those of redis.sentinel are for the Sentinels, those of redis for the server)"
	}
	text, hint := err.Error(), ""
	switch says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
	}; {
	case says("NOAUTH"):
		hint = whose + " wants a password: password_env names the variable that holds it" + atSentinels
	case says("WRONGPASS", "invalid username-password"):
		hint = whose + " does not take the user and password that username_env and password_env name" + atSentinels
	case says("certificate required", "bad certificate"):
		hint = whose + noCertificate
	case errors.As(err, &authority):
		hint = "ca names the file of the authority that has signed the server's certificate"
	case errors.As(err, &host):
		hint = "write the host as the server's certificate names it"
	case overTLS && says("connection reset", "broken pipe"): // it takes no more once it has missed one
		hint = "if " + whose + noCertificate
	case overTLS && (errors.As(err, &record) || errors.As(err, &timeout) && timeout.Timeout()), overTLS && says("EOF"):
		hint = "does it speak TLS? Without it the address begins with redis://"
	case !overTLS && says("connection reset", "EOF"):
		hint = "does it speak TLS only? Then the address begins with rediss://"
	case says("connection refused", "no such host"):
		hint = "does the server run, and is its address right?"
	case sentinel && says("i/o timeout"):
		hint = "the Sentinels name an address that cannot be reached from here (sentinel announce-ip)"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, hint)
}
