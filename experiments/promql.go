package experiments

import (
	"regexp"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Query is what a Prometheus server has scraped of some series, sample by sample.
type Query struct {
	Name  string        `rule:"required,ident"`                                   // how SLOs name it
	Query string        `rule:"required,format=selector"`                         // a selector: a name, matchers in braces, or both; no function, no range and no offset, because the SLO says delta, rate or max
	Step  time.Duration `rule:"positive,default=15s,least=1s,most=5m" scale:"no"` // how often the server scrapes the series: part of the error of each sample; a run whose server scrapes more seldom is refused
	PromServer
}

// PromServer is a server of somebody's own that speaks HTTP, and who asks it.
type PromServer struct {
	URL         string `file:"url" rule:"required,format=server"`            // address of the server, without user and password
	UsernameEnv string `rule:"format=env"`                                   // name of the environment variable that holds the user name
	PasswordEnv string `rule:"format=env"`                                   // name of the environment variable that holds the password
	BearerEnv   string `rule:"format=env,not=username_env,not=password_env"` // name of the environment variable that holds a bearer token
	CA          string `file:"ca"`                                           // PEM file of the authority that signed the server's certificate, beside the experiment's file; default: the system's
}

// tls refuses an authority for a server that is not asked by TLS.
func (q *PromServer) tls(path string) vocab.Constraint {
	return vocab.Constraint{At: path + ".ca", Says: "is for https", Broken: q.CA != "" && !strings.HasPrefix(q.URL, "https://")}
}

var (
	matcher  = `\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`[^`]*`" + `)\s*`
	selector = regexp.MustCompile(`^(?:[a-zA-Z_:][a-zA-Z0-9_:]*)?\s*(?:\{(?:` + matcher + `(?:,` + matcher + `)*,?\s*)?\})?$`)
	ranged   = regexp.MustCompile(`\[[^\]]*\]\s*$`)
	modified = regexp.MustCompile(`\s(?:offset\s.*|@\s*\S+)$`)
)

// notSelector says why a query is no selector, or "".
func notSelector(query string) string {
	text := strings.TrimSpace(query)
	switch {
	case modified.MatchString(text):
		return "an offset or a time of its own"
	case ranged.MatchString(text):
		return "the range is chosen by the run: leave [...] out"
	case strings.ContainsAny(text, "()") && !selector.MatchString(text):
		return "a function or an aggregation"
	case !selector.MatchString(text) || strings.Trim(text, "{} ") == "":
		return "no selector"
	}
	return ""
}
