package protocol

import (
	"fmt"
	"regexp"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// ofToken is a holder as lockcore/leasestore writes it: the digest of a token that is new for every acquire, and whose fingerprint is its
// beginning.
var ofToken = regexp.MustCompile(`^[0-9a-f]{64}$`)

// LeaseEpoch is the epoch of a Lease object that holder has, as its record says.
func LeaseEpoch(holder string, transitions int32, acquired time.Time) string {
	if ofToken.MatchString(holder) {
		return holder[:len(lockcore.Fingerprint(holder))]
	}
	return lockcore.Fingerprint(fmt.Sprintf("%s#%d@%d", holder, transitions, acquired.UnixNano()))
}
