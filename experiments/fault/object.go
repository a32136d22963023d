package fault

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Object makes an object of a Kubernetes cluster, of any kind: what its controller then does is the fault. Aimed at a replica, the manifest
// is told which pod that is; without an aim it strikes what it says.
type Object struct {
	Aim
	Manifest vocab.JSON    `rule:"required"`        // of one object; ${pod}, ${namespace}, ${node} and ${run} are filled in
	Resource string        `rule:"format=resource"` // of the API, such as networkchaos; default: the plural of the kind
	Confirm  string        `rule:"required"`        // JSONPath of what shows the fault in the object: {.status.phase}
	Equals   string        // what it finds then; default: anything
	Within   time.Duration `rule:"positive,most=5m" scale:"no"` // limit for its controller, to make the fault and to end it
	Struck   bool          `file:"-"`                           // a replica, as events tell, which do not say by which aim

	Served string `file:"-"` // as the API server calls them, before a run; "" = it was not asked
}

// Making is a fault that makes an object of a cluster.
type Making interface {
	Spec
	Makes() *Object
}

// Makes is the object itself.
func (o *Object) Makes() *Object { return o }

func (*Object) Kind() string { return "object" }

func (o *Object) form() string {
	if o.Struck || o.Aim != (Aim{}) {
		return aimed
	}
	return ""
}

func (o *Object) seen(form, _ string) { o.Struck = form == aimed }

// Header is what names an object, as its manifest has it: filled in or not.
type Header struct {
	APIVersion, Kind string
	Metadata         struct {
		Name, GenerateName, Namespace string
		Labels, Annotations           map[string]string
	}
}

// Header is that of the manifest; the zero Header where it has none.
func (o *Object) Header() Header {
	h, err := o.header()
	if err != nil {
		return Header{}
	}
	return h
}

func (o *Object) header() (h Header, err error) {
	err = json.Unmarshal([]byte(o.Manifest), &h)
	return h, err
}

// Group is that of its API version; "" = the core's.
func (h Header) Group() string {
	group, _, named := strings.Cut(h.APIVersion, "/")
	if !named {
		return ""
	}
	return group
}

// Called is the resource, as export rbac has to name it before any API server was asked.
func (o *Object) Called() string {
	word := strings.ToLower(o.Header().Kind)
	switch {
	case o.Served != "":
		return o.Served
	case o.Resource != "":
		return o.Resource
	case strings.HasSuffix(word, "chaos"): // Chaos Mesh's kinds have no plural
		return word
	case strings.HasSuffix(word, "s"), strings.HasSuffix(word, "x"), strings.HasSuffix(word, "ch"):
		return word + "es"
	case strings.HasSuffix(word, "y") && !strings.ContainsAny(word[max(0, len(word)-2):], "aeo"):
		return word[:len(word)-1] + "ies"
	}
	return word + "s"
}

// Stands are what a manifest may hold of the victim found, and of the run.
var Stands = []string{"pod", "namespace", "node", "run"}

var inManifest = regexp.MustCompile(`\$\{([^}]*)\}`)

// Holds reports whether the manifest asks for one of them.
func (o *Object) Holds(word string) bool { return strings.Contains(string(o.Manifest), "${"+word+"}") }

// Fill is the manifest with what is known put in: nothing else in it is changed.
func (o *Object) Fill(known map[string]string) string {
	return inManifest.ReplaceAllStringFunc(string(o.Manifest), func(s string) string {
		if v, is := known[s[2:len(s)-1]]; is {
			return v
		}
		return s
	})
}

// Guarded says why an object of that kind is made only if the file names its kind; "" = it is made.
func (h Header) Guarded() string {
	switch group := h.Group(); {
	case group == "" && (h.Kind == "Namespace" || h.Kind == "Node"):
		return "everything in it goes with it"
	case group == "rbac.authorization.k8s.io":
		return "it gives rights to others"
	case group == "apiextensions.k8s.io":
		return "all objects of the kind go with it"
	}
	return ""
}

// Wide reports that an object of that kind is in no namespace, as far as a file tells that names it among guarded kinds: no other needs to be.
func (h Header) Wide(allow []string) bool {
	return slices.Contains(allow, h.Kind) && h.Kind != "Role" && h.Kind != "RoleBinding"
}

// Lift is what the file says to have one made all the same.
func (h Header) Lift() string { return "kubernetes: {allow: [" + h.Kind + "]}" }

func (o *Object) values() map[string]string {
	shows := o.Confirm + " has a value"
	if o.Equals != "" {
		shows = o.Confirm + " is " + o.Equals
	}
	return map[string]string{"made": o.Header().Kind, "shows": shows}
}

// manifest says what is wrong with it; "" = nothing.
func (o *Object) manifest(c Checker) string {
	h, badly := o.header()
	a := c.Around()
	for _, m := range inManifest.FindAllStringSubmatch(string(o.Manifest), -1) {
		switch {
		case !slices.Contains(Stands, m[1]):
			return fmt.Sprintf("%s is unknown: there are ${%s}", m[0], strings.Join(Stands, "}, ${"))
		case (m[1] == "pod" || m[1] == "node") && o.Aim == (Aim{}):
			return m[0] + " is that of the victim, and nobody is struck: say holder_of or replica"
		}
	}
	switch why := h.Guarded(); {
	case badly != nil:
		return "is no manifest of one object: apiVersion, kind and the names, labels and annotations in metadata are texts, in quotes where they look like numbers"
	case strings.HasSuffix(h.Kind, "List"):
		return h.Kind + " is a list of objects: a fault makes one, and is confirmed by that one"
	case h.APIVersion == "" || h.Kind == "":
		return "is no manifest of one object: it has apiVersion and kind, as kubectl applies it"
	case strings.Contains(h.APIVersion+h.Kind, "${"):
		return "apiVersion and kind say what is made, and that is known before a run: write them out"
	case h.Metadata.GenerateName != "":
		return "metadata.generateName lets the API server choose a name, and it is written down before the object is made: leave it out, and lockdrill chooses one"
	case why != "" && !slices.Contains(a.Kinds, h.Kind):
		return fmt.Sprintf("%s is a kind that is not made without more: %s. If you mean it, say %s", h.Kind, why, h.Lift())
	case vocab.Redact(string(o.Manifest)) != string(o.Manifest):
		return "has what looks like a secret, and is written down with the run: let the object name a Secret of the cluster"
	}
	return ""
}

var objects = Kind{Word: "object", By: Cluster, New: made(Object{Within: 30 * time.Second}), Aims: nobody, Unplayed: "what a controller of the cluster does is not simulated",
	Says: "an object of a cluster is there, such as one of Chaos Mesh, Litmus or krkn",
	Form: Form{Traits: Traits{Noun: "object", Called: "object", Elsewhere: true, GoesOn: "an object is there until it is deleted"}, Size: "{made}",
		Does: "makes the {made} of the file in the cluster: its controller does the rest", Seen: "the object itself says so: {shows}",
		Undone: "the object is deleted if it still bears the run's mark, and is gone: its controller has let go", Told: "made a[ {size}][ {on}]{alone}"},
	Values: values(func(o *Object, t Traits) Traits {
		if o.form() == aimed {
			t.Class, t.Elsewhere = ClassPause, false
		}
		return t
	}),
	Unsupported: unsupported(func(_ *Object, a Around) string {
		if !a.Pods {
			return "is made in the cluster that replicas are in, " + noPods + ": a hook can run kubectl"
		}
		return ""
	}),
	Constraints: []Constraint{only("a manifest is told of one victim", "holder_of, replica or neither", func(o *Object) *Aim { return &o.Aim }),
		because("manifest", (*Object).manifest)},
}
