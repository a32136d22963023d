package leasestore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Prefixes of names that are no keys.
const (
	hexPrefix    = "key-x" // followed by the key in hex
	digestPrefix = "key-s" // followed by the SHA-256 of a key that is too long for that
)

// objectName is the name of a key's object. A key that is a valid name stands as it is, so that an election's Lease can be asked for by
// its own name; no two keys have one name.
func objectName(key string) string {
	reserved := strings.HasPrefix(key, hexPrefix) || strings.HasPrefix(key, digestPrefix)
	if !reserved && len(validation.IsDNS1123Subdomain(key)) == 0 {
		return key
	}
	if name := hexPrefix + hex.EncodeToString([]byte(key)); len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	return digestPrefix + hex.EncodeToString(sum[:])
}
