package experiments

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// facts are what rules can ask of a file as a whole, in its words.
var facts = map[string]string{"observed": "system.mode observe", "embedded": "system.mode embedded"}

// environmentName is the name of a variable, as shells have it.
var environmentName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

// noUser is said where a URL has a user.
const noUser = "user and password do not stand in a file: say username_env and password_env, the names of environment variables that hold them"

// secretInside is said where an address that is written down with the run has what looks like a secret.
const secretInside = "has what looks like a user, a password or a token in it, and is written down with the run: only the address, of what can be read without"

// formats are what texts of a file can be. Where a text is an address, the words of a parser are not repeated: they quote the address,
// and with it the password.
var formats = map[string]vocab.Format{
	"env":        vocab.Matching(environmentName.String(), "not the name of an environment variable: capital letters, digits and underscores"),
	"series":     vocab.Matching(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`, "%q is no name of a series; labels go under labels"),
	"namespace":  noNamespace,
	"label":      vocab.Matching(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, "%q is no name of a container"),
	"object":     vocab.Matching(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`, "%q is no name of a Secret"),
	"resource":   vocab.Matching(`^[a-z][-a-z0-9.]{0,252}$`, "%q is no resource of the API, which are called like networkchaos"),
	"controller": vocab.Matching(`^[a-z]+/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`, "%q names no controller of pods: write it like deployment/web"),
	"labelkey":   annotationKey,
	"labels":     labelled,
	"labelvalue": vocab.Matching(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`, "%q is no value of a label"),
	"redis":      func(f *vocab.File, text, way string) string { return written(notRedisBy(way))(f, text, "") },
	"pem": func(_ *vocab.File, text, _ string) string {
		if strings.Contains(text, "-----") {
			return "is the path of a file in PEM form, not what stands in it"
		}
		return ""
	},
	"toxiproxy": written(addresses["toxiproxy"].wrong),
	"proxy": written(func(text string) string {
		if strings.HasPrefix(text, "unix:") {
			return ""
		}
		return addresses["proxy"].wrong(text)
	}),
	"server":  written(addresses["server"].wrong),
	"address": written(addresses["address"].wrong),
	"quiet":   written(addresses["quiet"].wrong),
	"scrape": written(func(text string) string {
		if text == ScrapeReplicas || text == ScrapeLocks {
			return ""
		}
		return addresses["scrape"].wrong(text)
	}),
	"hostport": written(notHostPort),
	"query":    func(_ *vocab.File, text, any string) string { return noQuery(text, any != "") },
	"clock":    func(_ *vocab.File, text, _ string) string { return noClock(text) },
	"zone":     func(_ *vocab.File, text, _ string) string { return noZone(text) },
	"regexp":   func(_ *vocab.File, text, groups string) string { return NoPattern(text, groups) },
	"template": func(f *vocab.File, text, words string) string { return templateOf(text, known(f, words)) },
	"name":     nameTemplate,
	"exposition": func(f *vocab.File, text, _ string) string {
		return written(func(text string) string { return exposition(f, text) })(f, text, "")
	},
	"glob": func(_ *vocab.File, text, _ string) string {
		if _, err := filepath.Match(text, ""); err != nil {
			return fmt.Sprintf("%q is no pattern of paths: write it like /var/log/sched/*.log", text)
		}
		return ""
	},
}

var noNamespace = vocab.Matching(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, "%q is no name of a namespace")

// The names and values of labels, as the API server takes them.
const keyed = `^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`

var (
	annotationKey = vocab.Matching(keyed, "%q is no key of labels and annotations")
	labelKey      = vocab.Matching(keyed, "%q is no name of a label")
	labelValue    = vocab.Matching(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`, "%q is no value of a label: letters, digits, dots, dashes and underscores, at most 63")
)

// labelled checks a label.
func labelled(f *vocab.File, name, value string) string {
	return cmp.Or(labelKey(f, name, ""), labelValue(f, value, ""))
}

// written is the format of an address, which stands as it is: no variables are substituted in it.
func written(wrong func(text string) string) vocab.Format {
	return func(_ *vocab.File, text, _ string) string {
		if strings.Contains(text, "$") {
			return "no variables are substituted in a file: write the address, or give it on the command line with --set"
		}
		why := wrong(text)
		if m := bareIPv6.FindStringSubmatch(text); why != "" && m != nil {
			return fmt.Sprintf("an IPv6 address stands in brackets: write it like %s://[%s]:%s", m[1], m[2], m[3])
		}
		return why
	}
}

// bareIPv6 finds such an address, which is no secret: user and password have an @ behind them.
var bareIPv6 = regexp.MustCompile(`^([a-z]+)://([0-9a-f]*:[0-9a-f:]*):([0-9]+)(?:/[^@]*)?$`)

// notRedisBy says why a text is no URL of a Redis; by way "network" it has a host, and by way "cluster" there may be several.
func notRedisBy(way string) func(text string) string {
	return func(text string) string {
		path, _, socket := Socket(text)
		first, more, several := strings.Cut(text, ",")
		switch {
		case several && way == "cluster":
			scheme, _, _ := strings.Cut(first, "://")
			for _, one := range strings.Split(more, ",") {
				if !strings.HasPrefix(one, scheme+"://") {
					return "servers of a cluster are reached alike: write it like redis://host-1:6379,redis://host-2:6379"
				}
			}
			return cmp.Or(notRedis(first), notRedisBy(way)(more))
		case !socket && (strings.Contains(text, "unix") || strings.HasPrefix(text, "/")):
			return "not the socket of a Redis: write it like unix:///run/redis.sock or unix:///run/redis.sock?db=2"
		case socket && way == "network":
			return "a socket is of this host: write it like redis://host:26379"
		case socket && path == "":
			return "not the socket of a Redis: write it like unix:///run/redis.sock or unix:///run/redis.sock?db=2"
		case socket:
			return ""
		}
		return notRedis(text)
	}
}

// Socket is the path of the socket by which an address of a Redis leads to it, and the database there; ok is false for another address.
func Socket(address string) (path string, db int, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "unix" {
		return "", 0, false
	}
	number, given := strings.CutPrefix(u.RawQuery, "db=")
	if db, err = strconv.Atoi(number); u.Host != "" || u.User != nil || u.Fragment != "" || !strings.HasPrefix(u.Path, "/") || given && (err != nil || db < 0) || !given && u.RawQuery != "" {
		return "", 0, true
	}
	return u.Path, db, true
}

// notRedis says why a text is no URL of a Redis with a host.
func notRedis(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" || !database.MatchString(u.Path),
		strings.Count(u.Host, ":") > 1 && !strings.HasPrefix(u.Host, "["):
		return "not the url of a Redis: write it like redis://host:6379 or rediss://host:6379/2"
	case u.User != nil:
		return noUser
	case noPort(u) != "":
		return noPort(u)
	case u.RawQuery != "" || u.Fragment != "":
		return "takes no options: write it like redis://host:6379; a password comes by password_env"
	}
	return ""
}

var database = regexp.MustCompile(`^(/[0-9]{0,4})?$`)

// address is what is asked by a URL with one of these schemes, and what is said of a text that is none, and of one with a user, with a query or
// with what looks like a secret; "" = it may have that.
type address struct {
	schemes                   []string
	path                      *regexp.Regexp // nil = any
	says, user, query, secret string
}

var web = []string{"http", "https"}

// addresses are the formats of addresses.
var addresses = map[string]address{
	"toxiproxy": {schemes: web, path: regexp.MustCompile(`^/*$`), says: "not the address of a Toxiproxy's API: write it like http://host:8474",
		user: "has a user: write the address without one, like http://host:8474", query: "not the address of a Toxiproxy's API: write it like http://host:8474"},
	"proxy": {schemes: web[:1], user: "has a user: the API of a lockdrill proxy asks for none",
		says: "%q is no address of a proxy's API: write it like http://127.0.0.1:6381, or unix:/run/lockdrill.sock, as lockdrill proxy --api has it"},
	"server": {schemes: web, says: "no address of a Prometheus server: write it like http://prometheus.monitoring:9090", user: notHere, query: notHere},
	"address": {schemes: web, says: "no address: write it like http://127.0.0.1:8080/jobs", user: "user and password do not stand in a file: token_env names a variable with a bearer token",
		secret: "has what looks like a secret in it, and is written down with the run: token_env names a variable with a bearer token"},
	"scrape": {schemes: web, says: "neither replicas nor locks nor the address of an exposition: write it like http://127.0.0.1:9121/metrics", secret: secretInside},
	"quiet":  {schemes: web, says: "no address: write it like http://deploys.internal/quiet", user: secretInside, secret: secretInside},
}

const notHere = "has a user, a password or a query in it, and would be written down: only the server's address; username_env, password_env and bearer_env say who asks"

// wrong says why a text is no such address, or "".
func (a address) wrong(text string) string {
	u, err := url.Parse(text)
	switch {
	case err == nil && u.User != nil && a.user != "":
		return a.user
	case err == nil && u.RawQuery != "" && a.query != "":
		return a.query
	case err != nil || u.Host == "" || !slices.Contains(a.schemes, u.Scheme) || a.path != nil && !a.path.MatchString(u.Path):
		return strings.ReplaceAll(a.says, "%q", strconv.Quote(text))
	case a.secret != "" && vocab.Redact(text) != text:
		return a.secret
	}
	return noPort(u)
}

// noPort says why a URL's port is none, or "".
func noPort(u *url.URL) string {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || n == 0) {
		return "has a port that is none: from 1 to 65535"
	}
	return ""
}

// isHTTP reports an address that is asked by HTTP.
func isHTTP(text string) bool { return address{schemes: web, says: "none"}.wrong(text) == "" }

func notHostPort(text string) string {
	host, port, err := net.SplitHostPort(text)
	if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || host == "" || n == 0 {
		return fmt.Sprintf("%q is no address: write it like redis.staging.svc:6379", text)
	}
	return ""
}

func noClock(text string) string {
	if _, err := time.Parse(clockLayout, text); err != nil || len(text) != len(clockLayout) {
		return fmt.Sprintf("%q is no time of day: write it like \"09:00\"", text)
	}
	return ""
}

func noZone(text string) string {
	if _, err := time.LoadLocation(text); err != nil || text == "Local" {
		return fmt.Sprintf("no time zone is called %q: write it like Europe/Berlin or UTC", text)
	}
	return ""
}

// NoPattern says why a text is no regular expression with groups of these names, joined by +.
func NoPattern(text, groups string) string {
	re, err := regexp.Compile(text)
	if err != nil {
		return "no regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	}
	for name := range strings.SplitSeq(groups, "+") {
		if name != "" && !slices.Contains(re.SubexpNames(), name) {
			return fmt.Sprintf("has no group called %s, such as (?P<%s>\\S+)", name, name)
		}
	}
	return ""
}

// exposition checks the template of an address where metrics are served.
func exposition(f *vocab.File, text string) string {
	if why := templateOf(text, known(f, "replicas")); why != "" {
		return why
	}
	switch {
	case !isHTTP(placeholder.ReplaceAllString(text, "1")):
		return "no address of an exposition: write it like http://127.0.0.1:{port}/metrics"
	case vocab.Redact(text) != text:
		return secretInside
	}
	return ""
}

// nameTemplate checks how a name leads to a replica.
func nameTemplate(f *vocab.File, text, _ string) string {
	words := known(f, "replicas")
	if len(Placeholders(text)) == 0 {
		return fmt.Sprintf("%q is the same for every replica: say what differs, such as \"{%s}\"", text, words[0])
	}
	return templateOf(text, words)
}

// known are the words that a template may use, by the name of their list; nil = any, each once.
func known(f *vocab.File, list string) []string {
	switch names, is := f.Refs(list); {
	case list == "about":
		return []string{AboutKey, AboutLock, AboutEpoch}
	case list != "" && is:
		return names
	}
	return nil
}

// templateOf says what is wrong with the words in braces of a template: those that it may have, or, where known is nil, that none
// stands there twice.
func templateOf(text string, known []string) string {
	if strings.ContainsAny(placeholder.ReplaceAllString(text, ""), "{}") {
		return fmt.Sprintf("%q has a brace that belongs to no word: write a word in braces like {name}", text)
	}
	seen := map[string]bool{}
	for _, word := range Placeholders(text) {
		switch {
		case known != nil && !slices.Contains(known, word):
			return fmt.Sprintf("{%s} is not known of a replica: there is %s", word, "{"+strings.Join(known, "}, {")+"}")
		case known == nil && seen[word]:
			return fmt.Sprintf("{%s} stands there twice: each word once", word)
		}
		seen[word] = true
	}
	return ""
}
